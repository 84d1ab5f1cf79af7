//! Gets a model: `cargo run -p dspark-hub --example fetch -- starter` or `-- owner/name`.
//! It honours the same environment as the application.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line example")]

use dspark_hub::{Hub, Job, block_on};
use tokio_util::sync::CancellationToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("usage: fetch starter | owner/name")?;
    let hub = Hub::from_env();
    let started = std::time::Instant::now();
    let job = Job::new(CancellationToken::new(), |progress| {
        eprintln!("{} {} {}/{}", progress.stage.label(), progress.what, progress.done, progress.total);
    });
    let path = block_on(async {
        if name == dspark_hub::starter::NAME {
            hub.starter(&job).await.map(|starter| {
                eprintln!("source: {:?}", starter.source);
                starter.path
            })
        } else {
            hub.download(&name, None, &job).await
        }
    })??;
    println!("{}", path.display());
    eprintln!("{:.2?}", started.elapsed());
    Ok(())
}
