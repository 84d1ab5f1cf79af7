//! What the engine thread needs of a model, and where it gets one.

use crate::{
    drafters::{Class, Drafter, DrafterOptions},
    load::{Checkpoint, LoadError, LoadOptions},
    target::Target,
};
use dspark_protocol::{EngineError, LoadRequest, LoadStage, Mode, ModelInfo, Result};
use dspark_text::{TextError, Tokenizer};
use mlx_rs::Dtype;
use tokio_util::sync::CancellationToken;

/// A model ready to generate. Lives on the engine thread.
pub struct Loaded {
    pub target: Box<dyn Target>,
    /// Bound to the target.
    pub drafter: Option<Drafter>,
    pub tokenizer: Tokenizer,
    /// Why the drafter that was found for it is not used.
    pub drafter_refused: Option<String>,
    /// Token ids that end a text.
    pub eos: Vec<u32>,
    /// All that the weights and the configuration tell; the engine fills in name, window and times.
    pub facts: ModelInfo,
}

/// Brings models into memory, on the engine thread.
pub trait ModelLoader: Send {
    /// Loads the model of `request`. `report` hears stages and bytes and takes in commands: call it at least every
    /// tensor. `cancel` is to be looked at as often.
    ///
    /// # Errors
    /// What is wrong with the folder, or [`EngineError::Cancelled`]; nothing stays in memory then.
    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded>;

    /// Bytes that the model and its drafter will take at least, as cheaply as that can be told; none where it cannot.
    fn size(&mut self, request: &LoadRequest) -> Option<u64> {
        let _ = request;
        None
    }

    /// Everything that can be known of a model without reading its weights: asked before the present one is given up for it.
    /// Bytes that it will take, where they can be told.
    ///
    /// # Errors
    /// As [`Self::load`].
    fn check(&mut self, request: &LoadRequest) -> Result<Option<u64>> {
        let _ = request;
        Ok(None)
    }
}

/// Loads MLX folders from disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct FolderLoader;

impl ModelLoader for FolderLoader {
    fn size(&mut self, request: &LoadRequest) -> Option<u64> {
        Some(weight_bytes(&request.path) + request.drafter.as_deref().map_or(0, weight_bytes))
    }

    fn check(&mut self, request: &LoadRequest) -> Result<Option<u64>> {
        Checkpoint::open(&request.path).map_err(|error| error.into_engine(&request.name))?;
        tokenizer(request)?;
        Ok(self.size(request))
    }

    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        // Small and telling: a folder with a broken configuration or without a usable tokenizer is refused before
        // gigabytes are read. The configuration first: the tokenizer reads it too, for the ends of a text.
        let named = |error: LoadError| error.into_engine(&request.name);
        let checkpoint = Checkpoint::open(&request.path).map_err(named)?;
        let tokenizer = tokenizer(request)?;
        let mut reading = |done, total| report(LoadStage::Reading, done, total);
        let model = checkpoint.load(&LoadOptions::default(), &mut reading, cancel).map_err(named)?;
        report(LoadStage::Preparing, 0, 0);
        if cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        let (drafter, drafter_refused) = drafter(request, &model.decoder, model.facts.dtype)?;
        let mut eos = model.facts.eos.clone();
        eos.extend(tokenizer.eos_ids());
        eos.sort_unstable();
        eos.dedup();
        let facts = model.facts;
        let facts = ModelInfo {
            name: request.name.clone(),
            path: facts.path,
            model_type: facts.model_type,
            quantization: facts.quantization,
            drafter: drafter.as_ref().and(request.drafter.as_deref()).map(file_name),
            mode: request.mode,
            parameters: facts.parameters,
            weight_bytes: facts.weight_bytes,
            kv_bytes_per_token: facts.kv_bytes_per_token,
            context_window: facts.max_context,
            max_context: facts.max_context,
            has_chat_template: tokenizer.has_chat_template(),
            supports_thinking: tokenizer.template_facts().supports_thinking,
            supports_tools: tokenizer.template_facts().supports_tools,
            loaded_at: 0,
            load_seconds: facts.load_seconds,
            notes: facts.notes,
        };
        Ok(Loaded {
            target: Box::new(model.decoder),
            drafter,
            drafter_refused,
            tokenizer,
            eos,
            facts,
        })
    }
}

fn tokenizer(request: &LoadRequest) -> Result<Tokenizer> {
    Tokenizer::load(&request.path).map_err(|error| match error {
        TextError::Invalid { .. } => EngineError::Load {
            model: request.name.clone(),
            reason: error.to_string(),
        },
        other => other.into(),
    })
}

/// Of the weights' files in a folder, or of one file.
fn weight_bytes(path: &std::path::Path) -> u64 {
    let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |about| about.len());
    let Ok(entries) = std::fs::read_dir(path) else { return size(path) };
    let files = entries.flatten().map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|kind| kind == "safetensors" || kind == "gguf"))
        .map(|file| size(&file))
        .sum()
}

/// The drafter of a request, bound to `target`. One that was asked for by name or by mode must fit; one that was only found
/// is left out where it does not, and the reason comes back.
fn drafter(request: &LoadRequest, target: &dyn Target, activations: Dtype) -> Result<(Option<Drafter>, Option<String>)> {
    let Some(path) = &request.drafter else {
        return Ok((None, None));
    };
    let options = DrafterOptions {
        bits: request.drafter_bits.or(DrafterOptions::default().bits).filter(|bits| *bits > 0),
        // The target's own kind: mixed halves would be computed, head and all, in f32.
        activations: Some(activations),
        ..DrafterOptions::serving()
    };
    let found = Drafter::load(path, &options).and_then(|mut drafter| drafter.bind(target).map(|()| drafter));
    let checked = found
        .map_err(|error| error.to_string())
        .and_then(|drafter| fits_mode(request.mode, drafter));
    match checked {
        Ok(drafter) => Ok((Some(drafter), None)),
        Err(reason) if request.drafter_required => Err(EngineError::Load {
            model: request.name.clone(),
            reason: format!("its drafter `{}` cannot be used: {reason}", file_name(path)),
        }),
        Err(reason) => Ok((None, Some(format!("the drafter `{}` is not used: {reason}", file_name(path))))),
    }
}

/// The loop is read from the checkpoint; a mode that names another is a mistake.
fn fits_mode(mode: Mode, drafter: Drafter) -> std::result::Result<Drafter, String> {
    let own = mode_of(drafter.spec().class);
    if matches!(mode, Mode::Dspark | Mode::Dflash) && mode != own {
        let (own, asked) = (crate::speculate::name(own), crate::speculate::name(mode));
        return Err(format!(
            "it is a {own} drafter, and mode `{asked}` was asked for: use mode `{own}` or `auto`"
        ));
    }
    Ok(drafter)
}

/// The mode in which a drafter of this class runs.
pub(crate) fn mode_of(class: Class) -> Mode {
    match class {
        Class::DSpark => Mode::Dspark,
        _ => Mode::Dflash,
    }
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
