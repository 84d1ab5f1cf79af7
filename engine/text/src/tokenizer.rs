use crate::{
    Detokenizer, Result, TemplateFacts, TextError,
    bound::Reach,
    bytes::Spelling,
    chat::Renderer,
    encode::{self, Encoder, failed},
    facts,
    files::Folder,
    matcher::{Entry, Guard},
    output,
    template::python::{Clock, system_clock},
};
use dspark_protocol::{EngineError, Message, OutputSyntax, Prompt, PromptCodec, SamplingDefaults, TemplateOptions};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};
use tokenizers::{AddedToken, Model};

/// A model's tokenizer and chat template. Cheap to clone, and shared between threads.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hf: tokenizers::Tokenizer,
    spelling: Spelling,
    /// Added tokens by id, spelled plainly.
    added: HashMap<u32, Entry>,
    encoder: Encoder,
    folder: Folder,
    eos_ids: Vec<u32>,
    bos_id: Option<u32>,
    vocab_size: usize,
    reach: Option<Reach>,
    /// A broken template does not keep a model from completing plain text.
    renderer: Result<Option<Renderer>>,
    facts: TemplateFacts,
    syntax: OutputSyntax,
}

/// The parts of `tokenizer.json` that are read besides by the library; not its vocabulary.
#[derive(serde::Deserialize)]
struct Outline {
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    normalizer: Value,
    model: ModelOutline,
}

#[derive(serde::Deserialize)]
struct ModelOutline {
    unk_token: Option<String>,
    unk_id: Option<u32>,
}

impl Tokenizer {
    /// Reads a model folder: `tokenizer.json` and, where they exist, `tokenizer_config.json`,
    /// `special_tokens_map.json`, `config.json`, `generation_config.json`, `chat_template.jinja`, `chat_template.json`
    /// and `additional_chat_templates/`.
    ///
    /// # Errors
    /// [`TextError::File`] and [`TextError::Invalid`]; a template that does not compile is no error here, only when it
    /// is used.
    pub fn load(dir: &Path) -> Result<Self> {
        Self::load_at(dir, system_clock())
    }

    /// As [`Tokenizer::load`], with a clock of one's own for templates that print the date.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn load_with_clock(dir: &Path, clock: impl Fn() -> jiff::ZonedDateTime + Send + Sync + 'static) -> Result<Self> {
        Self::load_at(dir, Arc::new(clock))
    }

    fn load_at(dir: &Path, clock: Clock) -> Result<Self> {
        let path = dir.join("tokenizer.json");
        let bytes = fs::read(&path).map_err(|error| TextError::File {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let invalid = |cause: String| TextError::Invalid {
            path: path.clone(),
            cause,
            fix: "download the model again",
        };
        let outline: Outline = serde_json::from_slice(&bytes).map_err(|error| invalid(format!("it is not valid JSON ({error})")))?;
        // The library panics on some malformed files.
        let hf = catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(&bytes)))
            .map_err(|_| invalid("it is malformed".to_owned()))?
            .map_err(|error| invalid(format!("it is no tokenizer of a known kind ({error})")))?;
        Self::assemble(hf, &outline, Folder::read(dir)?, clock).map_err(|error| match error {
            TextError::Encode(cause) => invalid(cause),
            other => other,
        })
    }

    fn assemble(mut hf: tokenizers::Tokenizer, outline: &Outline, folder: Folder, clock: Clock) -> Result<Self> {
        hf.with_padding(None);
        hf.with_truncation(None).map_err(failed)?;
        add_configured(&mut hf, &folder)?;

        let mut entries = encode::entries(hf.get_added_vocabulary(), hf.get_normalizer());
        let unknown = outline
            .model
            .unk_id
            .or_else(|| outline.model.unk_token.as_ref().and_then(|token| hf.token_to_id(token)));
        let eos_ids = folder.stop_ids(|token| hf.token_to_id(token));
        let named = folder.specials.values().filter_map(|token| hf.token_to_id(token));
        let special: Vec<u32> = eos_ids.iter().copied().chain(named).collect();
        for entry in &mut entries {
            if special.contains(&entry.id) {
                entry.guard = Guard::Turn;
            }
        }

        let renderer = Renderer::new(&folder.templates, clock);
        let mut facts = TemplateFacts {
            has_template: matches!(renderer, Ok(Some(_))),
            ..TemplateFacts::default()
        };
        let mut syntax = OutputSyntax::default();
        if let Ok(Some(renderer)) = &renderer
            && !facts::is_hopeless(renderer, &folder.specials)
        {
            facts = TemplateFacts::probe(renderer, &folder.specials);
            let (turns, inner) = facts::own_words(renderer, &folder.specials);
            let seen = Encoder::new(&entries, unknown);
            raise(&mut entries, Guard::Inner, &seen, &inner);
            raise(&mut entries, Guard::Turn, &seen, &turns);
            let sources: Vec<&str> = folder.templates.values().map(String::as_str).collect();
            syntax = output::of_template(&inner, &sources.concat());
        }

        let bos_id = bos(&hf, &folder)?;
        let model = hf.get_model();
        let vocab = model.get_vocab();
        let highest = vocab.values().copied().chain(entries.iter().map(|entry| entry.id)).max();
        let spelling = Spelling::of(&outline.decoder, &outline.pre_tokenizer);
        let words = vocab.keys().map(|token| spelling.bytes(token));
        let added = entries.iter().map(|entry| entry.content.clone().into_bytes());
        let reach = Reach::of(&spelling, &outline.normalizer, &outline.pre_tokenizer, words.chain(added))
            .map(|reach| reach.swallowing(entries.iter().any(|entry| entry.lstrip || entry.rstrip)));
        Ok(Self(Arc::new(Inner {
            spelling,
            reach,
            encoder: Encoder::new(&entries, unknown),
            added: entries.into_iter().map(|entry| (entry.id, entry)).collect(),
            eos_ids,
            bos_id,
            vocab_size: highest.map_or(0, |id| id as usize + 1),
            renderer,
            facts,
            syntax,
            folder,
            hf,
        })))
    }

    /// Token ids of plain text, with the beginning-of-text token if the model wants one. Special tokens spelled in the
    /// text count: who sends raw text may write them.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.encode_fragment(text)?;
        if let Some(bos) = self.0.bos_id
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Token ids of plain text without a beginning-of-text token.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode_fragment(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.0.hf.encode_fast(text, false).map_err(failed)?.get_ids().to_vec())
    }

    /// The text of a sequence, special tokens included. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        if self.0.spelling == Spelling::Opaque {
            return self.decode_raw(ids);
        }
        let mut detokenizer = self.detokenizer();
        let mut text: String = ids.iter().map(|id| detokenizer.push_any(*id)).collect();
        text.push_str(&detokenizer.finish_lossy());
        text
    }

    /// What the library decodes.
    pub(crate) fn decode_raw(&self, ids: &[u32]) -> String {
        self.0.hf.decode(ids, false).unwrap_or_default()
    }

    /// The bytes of one token: not always UTF-8, and with the space that a word begins with. Empty for unknown ids.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        if let Some(entry) = self.0.added.get(&id) {
            return entry.content.clone().into_bytes();
        }
        if self.0.spelling == Spelling::Opaque {
            return self.decode_raw(&[id]).into_bytes();
        }
        self.0
            .hf
            .get_model()
            .id_to_token(id)
            .map(|token| self.0.spelling.bytes(&token))
            .unwrap_or_default()
    }

    /// The id of a token spelled as in the vocabulary.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.0.hf.token_to_id(token)
    }

    /// Is this a control token (special, or a mark between turns)?
    pub fn is_special(&self, id: u32) -> bool {
        self.0.encoder.is_turn_mark(id)
    }

    /// Ids that end a generation, in ascending order: those of `config.json`, `generation_config.json`, the
    /// tokenizer's end-of-sequence token and known turn ends.
    pub fn eos_ids(&self) -> &[u32] {
        &self.0.eos_ids
    }

    /// The token that a text begins with, for models that want one.
    pub fn bos_id(&self) -> Option<u32> {
        self.0.bos_id
    }

    /// One more than the highest id.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// At least this many tokens come of a text, by its length alone. 0 where this tokenizer sets no such bound.
    pub fn fewest_tokens(&self, text: &str) -> usize {
        self.0.reach.as_ref().map_or(0, |reach| reach.fewest(text))
    }

    /// The sampling that `generation_config.json` recommends.
    pub fn recommended_sampling(&self) -> SamplingDefaults {
        self.0.folder.sampling
    }

    /// For a text of its own, such as an answer: spaces that the encoding put in front of a text are taken off.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(self.clone(), false)
    }

    /// For text that goes on where a prompt ended: keeps the leading space.
    pub fn detokenizer_continuing(&self) -> Detokenizer {
        Detokenizer::new(self.clone(), true)
    }

    /// The model's chat templates as they stand in its files.
    pub fn template_source(&self) -> String {
        let templates = self.0.folder.templates.iter();
        templates.flat_map(|(name, source)| [name, "\n", source, "\n"]).collect()
    }

    pub fn has_chat_template(&self) -> bool {
        matches!(self.0.renderer, Ok(Some(_)))
    }

    /// What the chat template can do.
    pub fn template_facts(&self) -> &TemplateFacts {
        &self.0.facts
    }

    /// How the model marks its reasoning and its tool calls, as its template shows.
    pub fn output_syntax(&self) -> OutputSyntax {
        self.0.syntax
    }

    pub(crate) fn spelling(&self) -> &Spelling {
        &self.0.spelling
    }

    pub(crate) fn renderer(&self) -> Result<&Renderer> {
        match &self.0.renderer {
            Ok(renderer) => renderer.as_ref().ok_or(TextError::NoTemplate),
            Err(error) => Err(error.clone()),
        }
    }

    pub(crate) fn specials(&self) -> &BTreeMap<String, String> {
        &self.0.folder.specials
    }

    /// Added tokens under this guard.
    pub(crate) fn guarded(&self, guard: Guard) -> Vec<String> {
        self.0
            .added
            .values()
            .filter(|entry| entry.guard == guard)
            .map(|entry| entry.content.clone())
            .collect()
    }

    /// Does the text spell a token under at least this guard?
    pub(crate) fn holds_mark(&self, text: &str, least: Guard) -> bool {
        self.0
            .encoder
            .tokens_in(text)
            .iter()
            .any(|span| self.0.added.get(&span.id).is_some_and(|entry| entry.guard >= least))
    }

    pub(crate) fn encode_where(&self, text: &str, accept: impl Fn(&Entry, Range<usize>) -> bool) -> Result<Vec<u32>> {
        self.0.encoder.encode(&self.0.hf, text, accept)
    }
}

impl PromptCodec for Tokenizer {
    fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, EngineError> {
        Ok(match prompt {
            Prompt::Chat { messages, options } => self.encode_chat(messages, options)?,
            Prompt::Text(text) => self.encode_text(text)?,
            Prompt::Tokens(ids) => ids.clone(),
        })
    }

    fn render(&self, messages: &[Message], options: &TemplateOptions) -> Result<String, EngineError> {
        Ok(self.render_chat(messages, options)?)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.decode(ids)
    }

    fn recommended(&self) -> SamplingDefaults {
        self.recommended_sampling()
    }

    fn output_syntax(&self) -> OutputSyntax {
        self.output_syntax()
    }
}

/// Adds what `tokenizer_config.json` knows and `tokenizer.json` does not.
fn add_configured(hf: &mut tokenizers::Tokenizer, folder: &Folder) -> Result<()> {
    for (id, token) in &folder.added {
        let Some(content) = token["content"].as_str().filter(|content| !content.is_empty()) else {
            continue;
        };
        let known = hf.get_added_vocabulary().get_added_tokens_decoder().contains_key(id);
        // A token of another id would shift every later one; leave such a folder as its tokenizer.json has it.
        let next = hf.token_to_id(content).unwrap_or(hf.get_vocab_size(true) as u32);
        if known || next != *id {
            continue;
        }
        let flag = |name: &str| token[name].as_bool().unwrap_or(false);
        let added = AddedToken::from(content, flag("special"))
            .single_word(flag("single_word"))
            .lstrip(flag("lstrip"))
            .rstrip(flag("rstrip"))
            .normalized(flag("normalized"));
        hf.add_tokens([added]).map_err(failed)?;
    }
    for token in folder.specials.values() {
        let is_added = hf.get_added_vocabulary().get_vocab().contains_key(token);
        if !is_added && !token.is_empty() && hf.token_to_id(token).is_some() {
            hf.add_special_tokens([AddedToken::from(token.as_str(), true)]).map_err(failed)?;
        }
    }
    Ok(())
}

/// The beginning-of-text token, if the model wants one: as configured, else as the post-processor adds one.
fn bos(hf: &tokenizers::Tokenizer, folder: &Folder) -> Result<Option<u32>> {
    let named = folder.specials.get("bos_token").and_then(|token| hf.token_to_id(token));
    match folder.add_bos {
        Some(false) => Ok(None),
        Some(true) if named.is_some() => Ok(named),
        _ => {
            let empty = hf.encode_fast("", true).map_err(failed)?;
            Ok(empty
                .get_ids()
                .first()
                .copied()
                .filter(|first| named.is_none_or(|bos| bos == *first)))
        }
    }
}

/// Guards the marks that the template writes itself. Words and blanks stay free, whatever the template says.
fn raise(entries: &mut [Entry], guard: Guard, seen: &Encoder, text: &str) {
    let spans = seen.tokens_in(text);
    for entry in entries {
        let is_mark = entry
            .content
            .chars()
            .any(|character| !character.is_alphanumeric() && !character.is_whitespace())
            && entry.content.len() >= 3;
        if is_mark && entry.guard < guard && spans.iter().any(|span| span.id == entry.id) {
            entry.guard = guard;
        }
    }
}
