//! What the server itself costs, against the scripted double: no model, loopback, one connection a client.
//!
//! ```text
//! cargo run --release -p dspark-serve --example overhead
//! ```
//! Prints requests a second on `/health`, whole chat replies a second, and the time and CPU a streamed token costs
//! beyond what the double itself takes to produce it.

#![allow(clippy::print_stdout)]

use dspark_protocol::{
    EngineHandle, Event, Message, Request,
    double::{Script, start},
};
use dspark_serve::{ServeConfig, Server};
use std::{
    error::Error,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const TOKENS: usize = 20_000;

#[tokio::main]
async fn main() -> Result {
    let engine = start(Script::saying("word ".repeat(TOKENS)));
    let config = ServeConfig {
        port: 0,
        max_tokens_cap: TOKENS,
        ..ServeConfig::default()
    };
    let server = Server::bind(config, engine.clone()).await?;
    let (address, control) = (server.address(), server.control());
    let serving = tokio::spawn(server.serve(std::future::pending()));

    for clients in [1, 16] {
        let rate = requests(address, &format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n"), clients).await?;
        println!("GET /health, {clients} connections: {rate:.0} requests/s");
    }
    let body = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":1}";
    let rate = requests(address, &post(address, body), 1).await?;
    println!("POST /v1/chat/completions of one token, 1 connection: {rate:.0} requests/s");

    let (direct, direct_cpu) = timed(async || direct_run(&engine).await).await?;
    let (streamed, streamed_cpu) = timed(async || stream_run(address).await).await?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / TOKENS as f64;
    println!("double alone: {:.2} µs wall, {:.2} µs CPU a token", each(direct), each(direct_cpu));
    println!(
        "streamed over HTTP: {:.2} µs wall, {:.2} µs CPU a token (client included)",
        each(streamed),
        each(streamed_cpu)
    );
    println!(
        "so serving costs {:.2} µs wall and {:.2} µs CPU a token",
        each(streamed.saturating_sub(direct)),
        each(streamed_cpu.saturating_sub(direct_cpu))
    );
    control.shutdown();
    serving.await?;
    Ok(())
}

/// The best of five, wall and process CPU: other work on the machine only ever adds.
async fn timed(run: impl AsyncFn() -> Result) -> Result<(Duration, Duration)> {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let (begin, cpu) = (Instant::now(), cpu());
        run().await?;
        best = (best.0.min(begin.elapsed()), best.1.min(self::cpu().saturating_sub(cpu)));
    }
    Ok(best)
}

/// The process's CPU time so far.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

async fn direct_run(engine: &EngineHandle) -> Result {
    let mut generation = engine.submit(Request::chat("bench", vec![Message::user("hi")], TOKENS))?;
    while let Some(event) = generation.next().await {
        if let Event::Failed(error) = event {
            return Err(error.into());
        }
    }
    Ok(())
}

async fn stream_run(address: SocketAddr) -> Result {
    let mut stream = TcpStream::connect(address).await?;
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}],\"stream\":true,\"max_tokens\":{TOKENS}}}");
    stream.write_all(post(address, &body).as_bytes()).await?;
    let mut buffer = vec![0; 64 << 10];
    let mut tail = Vec::new();
    loop {
        let read = stream.read(&mut buffer).await?;
        tail.extend_from_slice(&buffer[..read]);
        let keep = tail.len().saturating_sub(64);
        tail.drain(..keep);
        if read == 0 || tail.windows(6).any(|window| window == b"[DONE]") {
            return Ok(());
        }
    }
}

fn post(address: SocketAddr, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Requests a second over two seconds, each connection one at a time.
async fn requests(address: SocketAddr, request: &str, clients: usize) -> Result<f64> {
    let end = Instant::now() + Duration::from_secs(2);
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let request = request.to_owned();
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await?;
                let mut count = 0u64;
                let mut buffer = vec![0; 64 << 10];
                while Instant::now() < end {
                    stream.write_all(request.as_bytes()).await?;
                    answer(&mut stream, &mut buffer).await?;
                    count += 1;
                }
                Ok::<_, std::io::Error>(count)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(total as f64 / 2.0)
}

/// One reply with a Content-Length.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length.is_some_and(|length| body.len() >= length) {
            return Ok(());
        }
    }
}
