/// Why an answer cannot be held to what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The schema is broken; `at` is a JSON pointer into it.
    #[error("the JSON schema is not valid at `{at}`: {problem}")]
    Schema { at: String, problem: String },
    #[error(
        "the JSON schema has {nodes} parts, nested {depth} deep; at most {} parts and {} levels can be enforced: shorten it",
        crate::schema::MOST_NODES,
        crate::schema::MOST_DEPTH
    )]
    TooLarge { nodes: usize, depth: usize },
    /// No value satisfies the schema.
    #[error("no JSON value can follow this schema: {0}")]
    Unsatisfiable(String),
    /// A regular expression or a Lark grammar that cannot be read.
    #[error("the {kind} cannot be enforced: {problem}")]
    Grammar { kind: &'static str, problem: String },
    /// This model's form of calls cannot be enforced.
    #[error("calls in this model's own form cannot be enforced")]
    NoCallForm,
    /// The tokens of this model cannot be used for masks.
    #[error("this model's vocabulary cannot be used for masks: {0}")]
    Vocabulary(String),
    /// The grammar came to a state that it cannot compute, in the middle of an answer.
    #[error("the answer can no longer be held to its schema: {0}; a simpler schema (fewer alternatives and patterns) avoids this")]
    Lost(String),
}
