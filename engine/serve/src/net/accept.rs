//! The accept loop and its end.

use crate::{App, routes};
use axum::body::Body;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{future::Future, pin::pin, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tower::ServiceExt;

/// Open connections; more wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 1024;

/// Bytes of a request's head (hyper answers 431 above), and headers in it.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

pub(super) async fn serve(listener: TcpListener, app: App, shutdown: impl Future<Output = ()>, grace: Duration) {
    let service = routes::service(app.clone());
    let service =
        TowerToHyperService::new(service.map_request(|request: axum::http::Request<hyper::body::Incoming>| request.map(Body::new)));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(app.config.read_timeout)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            stream = accept(&listener), if connections.len() < MAX_CONNECTIONS => stream,
        };
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()));
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(listener);
    app.stopping.cancel();
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections were still open at the end of the grace period and are closed"
        );
    }
    connections.shutdown().await;
}

/// The next connection, tuned: deltas go out at once, and a peer that vanished without a word is found out.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = tune(&stream) {
                    tracing::debug!(%error, "socket options");
                }
                return stream;
            }
            Err(error) => {
                // Out of file descriptors, mostly: they come back when a connection ends.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let probes = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_mins(1)))?;
    Ok(())
}
