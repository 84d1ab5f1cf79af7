//! Models that think write their thoughts first, between `<think>` and `</think>`.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// An answer taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts<'a> {
    /// Thoughts without their marks; `None` when there are none.
    pub reasoning: Option<&'a str>,
    /// The thoughts have ended.
    pub closed: bool,
    pub answer: &'a str,
}

/// Takes an answer apart, also while it is still being written.
pub fn split(text: &str) -> Parts<'_> {
    let start = text.trim_start();
    if !start.is_empty() && start.len() < OPEN.len() && OPEN.starts_with(start) {
        // The mark itself is still on its way.
        return Parts {
            reasoning: None,
            closed: false,
            answer: "",
        };
    }
    let Some(inside) = start.strip_prefix(OPEN) else {
        // Templates that open the thoughts themselves leave only the closing mark in the answer.
        return match text.split_once(CLOSE) {
            Some((thoughts, answer)) => Parts {
                reasoning: meaningful(thoughts),
                closed: true,
                answer: answer.trim_start(),
            },
            None => Parts {
                reasoning: None,
                closed: true,
                answer: text,
            },
        };
    };
    match inside.split_once(CLOSE) {
        Some((thoughts, answer)) => Parts {
            reasoning: meaningful(thoughts),
            closed: true,
            answer: answer.trim_start(),
        },
        None => Parts {
            reasoning: Some(without_partial_close(inside).trim()),
            closed: false,
            answer: "",
        },
    }
}

fn meaningful(thoughts: &str) -> Option<&str> {
    Some(thoughts.trim()).filter(|thoughts| !thoughts.is_empty())
}

fn without_partial_close(text: &str) -> &str {
    (1..CLOSE.len())
        .rev()
        .find_map(|length| text.strip_suffix(&CLOSE[..length]))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_every_cut() {
        let text = "<think>\nfirst\nthen\n</think>\n\nThe answer.";
        let mut shown = 0;
        for cut in 0..=text.len() {
            let parts = split(&text[..cut]);
            assert!(
                !parts.answer.contains('<') && !parts.reasoning.unwrap_or("").contains('<'),
                "{parts:?}"
            );
            assert!(parts.answer.len() >= shown, "the answer never shrinks");
            shown = parts.answer.len();
        }
        let parts = split(text);
        assert_eq!(
            (parts.reasoning, parts.closed, parts.answer),
            (Some("first\nthen"), true, "The answer.")
        );
        assert_eq!(split("plain").answer, "plain");
        assert_eq!(
            split("<think></think>x"),
            Parts {
                reasoning: None,
                closed: true,
                answer: "x"
            }
        );
        assert_eq!(split("thoughts</think>x").reasoning, Some("thoughts"));
        assert_eq!(split("a <b>").answer, "a <b>");
    }
}
