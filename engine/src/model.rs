//! What the engine thread needs of a model, and where it gets one.

use crate::{
    load::{LoadError, LoadOptions, load},
    target::Target,
};
use dspark_protocol::{EngineError, LoadRequest, LoadStage, Mode, ModelInfo, Result};
use dspark_text::Tokenizer;
use tokio_util::sync::CancellationToken;

/// A model ready to generate. Lives on the engine thread.
pub struct Loaded {
    pub target: Box<dyn Target>,
    pub tokenizer: Tokenizer,
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
}

/// Loads MLX folders from disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct FolderLoader;

impl ModelLoader for FolderLoader {
    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        // Small and telling: a folder without a usable tokenizer is refused before gigabytes are read.
        let tokenizer = Tokenizer::load(&request.path)?;
        let mut reading = |done, total| report(LoadStage::Reading, done, total);
        let model = load(&request.path, &LoadOptions::default(), &mut reading, cancel)
            .map_err(|error: LoadError| error.into_engine(&request.name))?;
        report(LoadStage::Preparing, 0, 0);
        if cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
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
            drafter: None,
            mode: Mode::Auto,
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
        };
        Ok(Loaded {
            target: Box::new(model.decoder),
            tokenizer,
            eos,
            facts,
        })
    }
}
