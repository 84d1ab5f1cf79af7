//! From a conversation to token ids.

use crate::{
    Result, TemplateFacts, TextError,
    context::{Conversation, Origin, Paint, Plain},
    matcher::{Entry, Guard},
    messages::normalize,
    provenance::{PrivateMarks, Provenance, Revealed, Twins},
    template::{
        ChatTemplate,
        python::Clock,
        source::{Vocabulary, vocabulary},
    },
    thinking::{ThinkingMarks, left_open},
    tokenizer::Tokenizer,
};
use dspark_protocol::{Message, Role, TemplateOptions};
use std::{collections::BTreeMap, ops::Range};

/// A conversation ready for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPrompt {
    pub ids: Vec<u32>,
    /// What the ids spell.
    pub text: String,
    /// The block of reasoning that the prompt leaves open: the model's first words are reasoning.
    pub thinking: Option<ThinkingMarks>,
    /// What was asked for and not done.
    pub warnings: Vec<String>,
}

/// The compiled templates of a model.
#[derive(Debug)]
pub(crate) struct Renderer {
    default: Template,
    tool_use: Option<Template>,
    clock: ClockBox,
}

#[derive(Debug)]
struct Template {
    compiled: ChatTemplate,
    vocabulary: Vocabulary,
}

struct ClockBox(Clock);

impl std::fmt::Debug for ClockBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Renderer {
    /// `None` where the folder has no template.
    pub(crate) fn new(templates: &BTreeMap<String, String>, clock: Clock) -> Result<Option<Self>> {
        let compile = |source: &String| {
            let compiled = ChatTemplate::compile(source, clock.clone())?;
            let vocabulary = vocabulary(compiled.source());
            Ok(Template { compiled, vocabulary })
        };
        let Some(default) = templates.get("default").or_else(|| templates.values().next()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            default: compile(default)?,
            tool_use: templates.get("tool_use").map(compile).transpose()?,
            clock: ClockBox(clock.clone()),
        }))
    }

    fn template(&self, options: &TemplateOptions) -> &Template {
        self.tool_use
            .as_ref()
            .filter(|_| !options.tools.is_empty())
            .unwrap_or(&self.default)
    }

    pub(crate) fn select(&self, options: &TemplateOptions) -> &ChatTemplate {
        &self.template(options).compiled
    }
}

/// One conversation on its way through the template.
struct Turn<'a> {
    tokenizer: &'a Tokenizer,
    renderer: &'a Renderer,
    conversation: Conversation<'a>,
}

impl Tokenizer {
    /// The conversation as the chat template writes it.
    ///
    /// # Errors
    /// [`TextError::NoTemplate`], [`TextError::Template`] in the template's own words, [`TextError::TemplateLimit`],
    /// [`TextError::NothingToContinue`].
    pub fn render_chat(&self, messages: &[Message], options: &TemplateOptions) -> Result<String> {
        self.with_turn(messages, options, |_, text| Ok(text)).map(|(text, _)| text)
    }

    /// Token ids of the conversation. See [`Tokenizer::chat_prompt`].
    ///
    /// # Errors
    /// As [`Tokenizer::chat_prompt`].
    pub fn encode_chat(&self, messages: &[Message], options: &TemplateOptions) -> Result<Vec<u32>> {
        self.chat_prompt(messages, options).map(|prompt| prompt.ids)
    }

    /// Renders and tokenizes a conversation.
    ///
    /// The ids are those of the rendered text as a whole, with one exception: a special token counts only where the
    /// template wrote it. The same characters inside a message, a tool result, a tool description or a template
    /// variable are ordinary text, so nobody can forge a turn.
    ///
    /// # Errors
    /// Those of [`Tokenizer::render_chat`], and [`TextError::Encode`].
    pub fn chat_prompt(&self, messages: &[Message], options: &TemplateOptions) -> Result<ChatPrompt> {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the bare method is tied to one lifetime")]
        let ((text, ids), warnings) = self.with_turn(messages, options, |turn, plain| turn.encode(plain))?;
        Ok(ChatPrompt {
            ids,
            thinking: left_open(&text),
            text,
            warnings,
        })
    }

    fn with_turn<T>(
        &self,
        messages: &[Message],
        options: &TemplateOptions,
        work: impl Fn(&Turn, String) -> Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let renderer = self.renderer()?;
        let messages = normalize(messages);
        if options.continue_final_message && messages.last().is_none_or(|last| last.role != Role::Assistant) {
            return Err(TextError::NothingToContinue);
        }
        let options = fitting(options, self.template_facts());
        let run = |options: &TemplateOptions| {
            let end_mark = options.continue_final_message.then(|| unused_mark(&messages, options));
            let conversation = Conversation {
                messages: &messages,
                options,
                generation_prompt: !options.continue_final_message,
                specials: self.specials(),
                end_mark,
            };
            let turn = Turn {
                tokenizer: self,
                renderer,
                conversation,
            };
            let plain = turn.render(&Plain)?;
            work(&turn, plain)
        };
        match run(&options) {
            Ok(done) => Ok((done, Vec::new())),
            // A template may refuse a variable it does not know; the conversation matters more.
            Err(TextError::Template(words))
                if options.enable_thinking.is_some() || options.reasoning_effort.is_some() || !options.extra.is_empty() =>
            {
                let bare = TemplateOptions {
                    tools: options.tools.clone(),
                    continue_final_message: options.continue_final_message,
                    ..TemplateOptions::default()
                };
                let done = run(&bare).map_err(|_| TextError::Template(words.clone()))?;
                Ok((
                    done,
                    vec![format!("the chat template refused its options ({words}), so they were left out")],
                ))
            }
            Err(error) => Err(error),
        }
    }
}

/// The options as the template understands them.
fn fitting(options: &TemplateOptions, facts: &TemplateFacts) -> TemplateOptions {
    let mut options = options.clone();
    let from_extra = options
        .extra
        .get("reasoning_effort")
        .and_then(|effort| effort.as_str())
        .map(str::to_lowercase);
    if let Some(asked) = options.reasoning_effort.clone().map(|effort| effort.to_lowercase()).or(from_extra) {
        options.extra.remove("reasoning_effort");
        if asked == "none" && options.enable_thinking.is_none() {
            options.enable_thinking = Some(false);
        }
        options.reasoning_effort = facts
            .nearest_effort(&asked)
            .map(str::to_owned)
            .or(Some(asked))
            .filter(|effort| effort != "none");
    }
    options
}

impl Turn<'_> {
    fn template(&self) -> &Template {
        self.renderer.template(self.conversation.options)
    }

    fn render(&self, paint: &dyn Paint) -> Result<String> {
        self.render_with(&self.template().compiled, paint)
    }

    fn render_with(&self, template: &ChatTemplate, paint: &dyn Paint) -> Result<String> {
        // Twins take four bytes where the original took one.
        let mut text = template.render(self.conversation.context(paint), 4 * self.conversation.size())?;
        if let Some(mark) = self.conversation.end_mark {
            let end = text.rfind(mark).ok_or_else(|| {
                TextError::Template("the chat template leaves out the last message, so it cannot be continued".to_owned())
            })?;
            text.truncate(end);
        } else if self.thinking_is_off()
            && let Some(marks) = left_open(&text)
        {
            // The template opens a block of reasoning whatever it is told; thinking off means to close it again.
            text.push_str(&paint.special(marks.close));
            text.push_str("\n\n");
        }
        Ok(text)
    }

    fn thinking_is_off(&self) -> bool {
        let options = self.conversation.options;
        options.enable_thinking == Some(false)
            || (options.enable_thinking.is_none() && options.extra.get("enable_thinking") == Some(&false.into()))
    }

    /// The text and its ids. See the module [`crate::provenance`] for how content is told apart.
    fn encode(&self, plain: String) -> Result<(String, Vec<u32>)> {
        let holds_mark = |text: &str, origin: Origin| self.tokenizer.holds_mark(text, least_guard(origin));
        let twins = Twins {
            vocabulary: &self.template().vocabulary,
            holds_mark: &holds_mark,
        };
        let provenance = self.render(&twins).ok().and_then(|shadow| Provenance::compare(&plain, &shadow));
        if let Some(provenance) = provenance {
            let ids = self
                .tokenizer
                .encode_where(&plain, |entry: &Entry, range: Range<usize>| match entry.guard {
                    Guard::Free => true,
                    Guard::Inner => !provenance.touches(&range, Origin::Foreign),
                    Guard::Turn => !provenance.touches(&range, Origin::Foreign) && !provenance.touches(&range, Origin::Dialogue),
                })?;
            return Ok((plain, ids));
        }
        let Revealed { text, turns, foreign } = self.render_privately(&plain)?;
        let ids = self.tokenizer.encode_where(&text, |entry, range| match entry.guard {
            Guard::Free => true,
            Guard::Inner => !foreign.contains(&range),
            Guard::Turn => turns.contains(&range),
        })?;
        Ok((text, ids))
    }

    fn render_privately(&self, plain: &str) -> Result<Revealed> {
        let source = self.template().compiled.source();
        let [turns, inner] = [Guard::Turn, Guard::Inner].map(|guard| self.tokenizer.guarded(guard));
        let marks = PrivateMarks::new(turns, inner, &[source, plain]).ok_or_else(|| {
            TextError::Template("the conversation uses every private character, so its turns cannot be marked".to_owned())
        })?;
        let rewritten = ChatTemplate::compile(&marks.rewrite(source), self.renderer.clock.0.clone())?;
        Ok(marks.reveal(&self.render_with(&rewritten, &marks)?))
    }
}

fn least_guard(origin: Origin) -> Guard {
    match origin {
        Origin::Dialogue => Guard::Turn,
        Origin::Foreign => Guard::Inner,
    }
}

/// A character that nobody uses.
fn unused_mark(messages: &[Message], options: &TemplateOptions) -> char {
    let everything = serde_json::to_string(&(messages, options)).unwrap_or_default();
    ('\u{10f000}'..='\u{10fffd}')
        .rev()
        .find(|mark| !everything.contains(*mark))
        .unwrap_or('\u{10fffd}')
}
