//! A parsed request, the same whatever dialect it came in.

use super::{effort::Levels, tools::Tools};
#[cfg(test)]
use dspark_protocol::{Prompt, TemplateOptions};
use dspark_protocol::{Request, SamplingDefaults};

/// What a request gets where it says nothing, and what bounds it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    pub(crate) client: String,
    pub(crate) max_tokens: usize,
    pub(crate) max_tokens_cap: usize,
    /// The server's settings, over the checkpoint's recommendation.
    pub(crate) sampling: [SamplingDefaults; 2],
    pub(crate) enable_thinking: Option<bool>,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) ignore_attachments: bool,
    /// The loaded model's template can think: a small default would cut the answer off inside the thought.
    pub(crate) thinks: bool,
    /// `None` when the template could not be asked.
    pub(crate) levels: Option<Levels>,
}

/// One request to answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// OpenAI's `stream_options.include_usage`.
    pub(crate) include_usage: bool,
    /// Answers, 1..=8.
    pub(crate) n: usize,
    /// The client's own limit, where it named one.
    pub(crate) asked_max: Option<usize>,
    pub(crate) request: Request,
    pub(crate) tools: Tools,
    /// Whether reasoning is told apart from the answer and calls are looked for; raw text is not.
    pub(crate) raw: bool,
    /// Leave reasoning out of the reply.
    pub(crate) hide_reasoning: bool,
    pub(crate) warnings: Vec<String>,
}

impl Ask {
    /// The request of choice `index`: the same, but for a seed of its own.
    pub(crate) fn choice(&self, index: usize) -> Request {
        let mut request = self.request.clone();
        request.sampling.seed = request.sampling.seed.map(|seed| seed.wrapping_add(index as u64));
        request
    }

    /// Every choice would be the same text.
    pub(crate) fn greedy(&self) -> bool {
        self.request.sampling.temperature == 0.0
    }

    /// What the template is told; `None` for raw text.
    #[cfg(test)]
    pub(crate) fn options(&self) -> Option<&TemplateOptions> {
        match &self.request.prompt {
            Prompt::Chat { options, .. } => Some(options),
            Prompt::Text(_) | Prompt::Tokens(_) => None,
        }
    }
}
