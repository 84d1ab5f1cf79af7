//! The short form of the soak: abuse of a server in this process, with what must hold after it. The long form takes an
//! argument: `python3 tests/clients/soak.py --url http://127.0.0.1:8080 --pid PID --requests 2000` against any server.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use dspark_protocol::{
    Prompt,
    double::{Script, start},
};
use dspark_serve::{ServeConfig, Server};
use std::{path::Path, process::Command, sync::Arc, time::Duration};

/// What a model that thinks writes when it calls a tool.
const CALL: &str =
    "<think>Need it.</think>\n\nLooking.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";

#[test]
fn a_soaked_server_answers_well_and_is_as_it_was() {
    let text = "word ".repeat(400);
    let script = Script {
        answer: Arc::new(move |request| {
            let tools = matches!(&request.prompt, Prompt::Chat { options, .. } if !options.tools.is_empty());
            Ok(if tools { CALL.to_owned() } else { text.clone() })
        }),
        ..Script::saying("").at(300.0)
    };
    let config = ServeConfig {
        port: 0,
        body_limit: 1 << 20,
        read_timeout: Duration::from_secs(1),
        keep_alive: Duration::from_millis(200),
        ..ServeConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::bind(config, start(script))).unwrap();
    let control = server.control();
    let task = runtime.spawn(server.serve(std::future::pending()));
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/soak.py"))
        .args(["--url", &control.url(), "--pid", &std::process::id().to_string()])
        .args(["--requests", "150", "--body-limit", "1048576", "--leaves", "4"])
        // A double's round is 3 ms here: what the client sees of the last one is a few rounds old.
        .args(["--late", "20", "--slack", "8"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0 wrong"));
    control.shutdown();
    runtime.block_on(task).unwrap();
}
