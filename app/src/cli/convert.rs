//! `convert`: a published checkpoint or a GGUF file to an MLX folder.

use super::{
    engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use clap::Args;
use dspark_engine::{
    convert::{self, ConvertError, ConvertOptions, Converted, Float, Override, Rule},
    load::{LoadError, Mode, Packing},
};
use dspark_hub::{Hub, Job, size};
use std::path::{Path, PathBuf};

/// Goes on where an earlier run was stopped, uses little memory whatever the size of the model, and reads everything back.
#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// A folder with config.json and *.safetensors (Hugging Face's names or MLX's), a GGUF file, or `owner/name`.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The folder to make; it must not exist.
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// Quantize to this many bits: 2, 3, 4, 5, 6 or 8. [default with another of these options: 4]
    #[arg(long, value_name = "BITS")]
    bits: Option<i64>,
    /// Weights that share a scale: 32, 64 or 128. [default: 64]
    #[arg(long, value_name = "WEIGHTS")]
    group_size: Option<i64>,
    /// How to quantize. [default: affine]
    #[arg(long, value_parser = ["affine", "mxfp4", "nvfp4", "mxfp8"])]
    mode: Option<String>,
    /// An exception for the modules whose path ends so (`*` is anything): `lm_head=8`, `*.down_proj=6:64`,
    /// `embed_tokens=keep`, `mlp.*=mxfp4`. May be repeated; the last that matches counts.
    #[arg(long = "override", value_name = "PATTERN=BITS[:GROUP]|MODE|keep", value_parser = parse_override)]
    overrides: Vec<Override>,
    /// Of what is not quantized, and of scales. [default: what config.json names, else as stored]
    #[arg(long, value_parser = ["bfloat16", "float16", "float32"])]
    dtype: Option<String>,
    /// Most gigabytes of a file. [default: 5.4]
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    shard_size: Option<f64>,
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Self {
        let code = match error {
            ConvertError::Hub(error) => return error.into(),
            ConvertError::Usage(_) => exit::USAGE,
            ConvertError::Refused(_)
            | ConvertError::Exists(_)
            | ConvertError::Load(
                LoadError::UnsupportedModel { .. } | LoadError::OwnCode { .. } | LoadError::Pickle { .. } | LoadError::Quantization(_),
            ) => exit::REFUSED,
            ConvertError::Load(LoadError::Cancelled) | ConvertError::Cancelled => exit::INTERRUPTED,
            ConvertError::Load(_) | ConvertError::NotFinite { .. } => exit::LOAD,
            _ => exit::FAILED,
        };
        Self::new(code, error)
    }
}

pub(super) fn run(args: &ConvertArgs, output: &Output) -> Outcome {
    let options = options(args)?;
    let runtime = engine::runtime()?;
    let named = Path::new(&args.source);
    let source = if named.exists() {
        named.to_owned()
    } else {
        let hub = Hub::from_env();
        let missing = Failure::usage(format!(
            "there is no folder or file `{}`: check the path, or name a model of the hub as `owner/name`",
            args.source
        ));
        if args.source.starts_with(['/', '.', '~']) || !args.source.contains('/') && hub.resolve(&args.source).is_err() {
            return Err(missing);
        }
        runtime.block_on(engine::with_progress(output, &args.source, |job| obtain(&hub, &args.source, job)))?
    };
    let done = runtime.block_on(engine::with_progress(output, &args.source, |job| {
        work(source, args.dest.clone(), options, job)
    }))?;
    if output.json {
        output.object(&done.object());
        return Ok(());
    }
    for note in &done.notes {
        output.note(note);
    }
    let files = if done.files == 1 {
        String::new()
    } else {
        format!(" in {} files", done.files)
    };
    output.result(&format!(
        "{}: {} in {} tensors{files}, {:.2} bits per weight, read back and equal",
        done.path.display(),
        size(done.written),
        done.tensors,
        done.bits_per_weight
    ));
    Ok(())
}

async fn obtain(hub: &Hub, name: &str, job: Job) -> Result<PathBuf, Failure> {
    Ok(hub.obtain(name, &job).await?.path)
}

/// Off the runtime's threads, so that Ctrl-C is heard.
async fn work(source: PathBuf, dest: PathBuf, options: ConvertOptions, job: Job) -> Result<Converted, Failure> {
    let work = tokio::task::spawn_blocking(move || convert::convert(&source, &dest, &options, &job));
    match work.await {
        Ok(done) => done.map_err(Failure::from),
        Err(error) => Err(Failure::new(exit::FAILED, format!("the conversion stopped: {error}; try again"))),
    }
}

fn options(args: &ConvertArgs) -> Outcome<ConvertOptions> {
    let wanted = args.bits.is_some() || args.group_size.is_some() || args.mode.is_some();
    let packing = if wanted {
        Some(packing(args.mode.as_deref().unwrap_or("affine"), args.bits, args.group_size).map_err(Failure::usage)?)
    } else {
        None
    };
    Ok(ConvertOptions {
        packing,
        overrides: args.overrides.clone(),
        float: args.dtype.as_deref().and_then(Float::named),
        shard: args.shard_size.map_or(convert::SHARD, |gigabytes| (gigabytes * 1e9) as u64),
    })
}

fn packing(mode: &str, bits: Option<i64>, group: Option<i64>) -> Result<Packing, String> {
    let usual = Mode::named(mode)
        .map(Packing::usual)
        .ok_or_else(|| format!("there is no mode `{mode}`"))?;
    Packing::new(bits.unwrap_or(usual.bits.into()), group.unwrap_or(usual.group.into()), mode).map_err(|error| error.to_string())
}

fn gigabytes(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "must be a number above 0".into())
}

/// `PATTERN=keep`, `PATTERN=6`, `PATTERN=8:64`, `PATTERN=mxfp4`.
fn parse_override(text: &str) -> Result<Override, String> {
    let wanted = "must be PATTERN=keep, PATTERN=BITS, PATTERN=BITS:GROUP or PATTERN=MODE";
    let (pattern, rule) = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty()).ok_or(wanted)?;
    let number = |text: &str| text.parse::<i64>().map_err(|_| wanted.to_owned());
    let rule = if rule == "keep" {
        Rule::Keep
    } else if Mode::named(rule).is_some() {
        Rule::Pack(packing(rule, None, None)?)
    } else if let Some((bits, group)) = rule.split_once(':') {
        Rule::Pack(packing("affine", Some(number(bits)?), Some(number(group)?))?)
    } else {
        Rule::Pack(packing("affine", Some(number(rule)?), None)?)
    };
    Ok(Override {
        pattern: pattern.to_owned(),
        rule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read() {
        let rule = |text: &str| parse_override(text).map(|found| (found.pattern, found.rule));
        let affine = |bits, group| {
            Rule::Pack(Packing {
                bits,
                group,
                mode: Mode::Affine,
            })
        };
        assert_eq!(rule("lm_head=keep"), Ok(("lm_head".into(), Rule::Keep)));
        assert_eq!(rule("*.down_proj=6"), Ok(("*.down_proj".into(), affine(6, 64))));
        assert_eq!(rule("a=8:32"), Ok(("a".into(), affine(8, 32))));
        assert_eq!(rule("a=nvfp4"), Ok(("a".into(), Rule::Pack(Packing::usual(Mode::Nvfp4)))));
        for text in ["lm_head", "=4", "a=", "a=x", "a=4:", "a=7", "a=4:48", "a=16"] {
            assert!(rule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes_have_their_own_bits() {
        assert_eq!(packing("affine", None, None).map(|found| found.to_string()), Ok("4-bit g64".into()));
        assert_eq!(packing("mxfp8", None, None).map(|found| found.to_string()), Ok("mxfp8".into()));
        assert!(packing("mxfp4", Some(8), None).is_err_and(|message| message.contains("8 bits in groups of 32 (mxfp4)")));
    }
}
