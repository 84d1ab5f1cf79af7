//! An answer as a program without a server tells it: taken apart by the same reader, with the same figures.

use crate::{
    dialect::extension,
    reader::{Answer, Plan, Reader},
};
use dspark_protocol::{OutputSyntax, Summary, TextDelta, Usage};
use dspark_text::output::SplitterOptions;
use serde_json::{Map, Value};

/// A whole answer with its reasoning apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Told {
    pub text: String,
    pub reasoning: String,
    /// With the reasoning counted.
    pub usage: Usage,
    /// The `x_mlx_dspark` block. Source: `spec/http-api.md` §2.4.
    pub block: Map<String, Value>,
}

/// Reads an answer that is complete. `prompt` is the rendered prompt or its end, which shows whether the answer begins
/// inside its reasoning; `None` for a prompt without a template, whose answer is raw text.
pub fn told(syntax: OutputSyntax, prompt: Option<String>, deltas: &[TextDelta], summary: &Summary) -> Told {
    let mut reader = Reader::new(Plan {
        split: prompt.map(|prompt| SplitterOptions {
            syntax,
            prompt,
            ..SplitterOptions::default()
        }),
        calls: false,
        hide_reasoning: false,
        demanded: false,
    });
    let mut text = String::new();
    for delta in deltas {
        // For the count of its tokens; what it says is read as a whole below.
        reader.read(delta);
        text.push_str(&delta.text);
    }
    let mut answer = Answer::default();
    reader.whole(&text, &summary.finish).into_iter().for_each(|piece| answer.add(piece));
    let usage = reader.end(summary).usage;
    Told {
        text: answer.text,
        reasoning: answer.reasoning,
        usage,
        block: extension::summarized(summary, &usage, [], &summary.warnings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{reader::Finish, testing};

    #[test]
    fn reasoning_comes_apart_and_is_counted() {
        let summary = testing::closing(Finish::Stop).summary;
        let deltas: Vec<TextDelta> = ["<think>", "Two ", "words.", "</think>", "\n\n", "Yes."]
            .iter()
            .map(|word| TextDelta {
                text: (*word).into(),
                tokens: vec![testing::token(word, -0.5)],
            })
            .collect();
        let whole = told(OutputSyntax::default(), Some(String::new()), &deltas, &summary);
        assert_eq!((whole.text.as_str(), whole.reasoning.as_str()), ("Yes.", "Two words."));
        assert!(whole.usage.reasoning_tokens >= 2, "{:?}", whole.usage);
        for key in [
            "mode",
            "accept_len",
            "prompt_tokens",
            "cached_tokens",
            "context_tokens",
            "queue_seconds",
            "stop_reason_detail",
        ] {
            assert!(whole.block.contains_key(key), "{key}");
        }
        let raw = told(OutputSyntax::default(), None, &deltas, &summary);
        assert_eq!(raw.text, "<think>Two words.</think>\n\nYes.");
    }
}
