//! Where a model thinks before it answers. Source: `spec/checkpoints.md` §5.

/// What opens and closes a block of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkingMarks {
    pub open: &'static str,
    pub close: &'static str,
}

/// The pairs in use by model families.
pub const THINKING: [ThinkingMarks; 2] = [
    ThinkingMarks {
        open: "<think>",
        close: "</think>",
    },
    ThinkingMarks {
        open: "<|channel>thought",
        close: "<channel|>",
    },
];

/// The block that a prompt leaves open: the model then starts inside its reasoning.
pub fn left_open(prompt: &str) -> Option<ThinkingMarks> {
    let end = prompt.trim_end();
    THINKING.into_iter().find(|marks| end.ends_with(marks.open))
}
