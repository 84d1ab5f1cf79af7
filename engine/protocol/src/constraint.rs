use serde_json::Value;

/// What an answer must look like. Reasoning in front of it stays free, and the answer can end only where it is complete.
/// Source: `spec/http-api.md` §14.2.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// What may be said.
    pub answer: AnswerRule,
    /// Calls of tools, beside or instead of that.
    pub calls: Option<CallRule>,
}

/// What an answer's own text must be.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerRule {
    /// Anything. With calls: text until the model opens one, which is then held to its schema.
    Free,
    /// Nothing: the answer is a call.
    Call,
    /// A JSON object.
    Object,
    /// JSON that follows this schema.
    Schema(Value),
    /// Text that matches this regular expression as a whole.
    Regex(String),
    /// Text that this grammar (Lark, in llguidance's dialect) derives.
    Lark(String),
}

/// Which calls an answer may hold.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRule {
    pub tools: Vec<ToolRule>,
    /// More than one call.
    pub many: bool,
}

/// A function and the schema of its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRule {
    pub name: String,
    /// JSON schema of an object.
    pub parameters: Value,
}

impl Constraint {
    /// JSON that follows `schema`.
    pub fn schema(schema: Value) -> Self {
        Self {
            answer: AnswerRule::Schema(schema),
            calls: None,
        }
    }

    /// A JSON object.
    pub fn object() -> Self {
        Self {
            answer: AnswerRule::Object,
            calls: None,
        }
    }

    /// Text that matches `regex` as a whole.
    pub fn regex(regex: impl Into<String>) -> Self {
        Self {
            answer: AnswerRule::Regex(regex.into()),
            calls: None,
        }
    }
}
