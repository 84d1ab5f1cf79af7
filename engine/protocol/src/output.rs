use serde::{Deserialize, Serialize};

/// How a model sets its reasoning apart from its answer. Source: `spec/http-api.md` §7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningSyntax {
    /// Everything is the answer.
    None,
    /// `<think>…</think>` in front of the answer.
    #[default]
    Think,
    /// `<|channel>thought …<channel|>` in front of the answer (Gemma 4).
    ThoughtChannel,
    /// Messages with a recipient: `to=self<|message|>…<|eom|>` is reasoning (Muse).
    Recipients,
    /// Messages on channels: `<|channel|>analysis<|message|>…<|end|>` is reasoning (harmony).
    Harmony,
}

/// How a model writes a call of a tool. Source: `spec/http-api.md` §8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSyntax {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`
    #[default]
    Hermes,
    /// `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`, the wrapper optional.
    XmlFunction,
    /// `<function name="NAME"><param name="KEY">VALUE</param></function>`
    MiniCpm,
    /// `<|tool_call>call:NAME{key:<|"|>text<|"|>,n:3}<tool_call|>`
    Gemma,
    /// `<atem:function_calls><atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter>…`
    Atem,
    /// `<|tool_call_start|>[f(a="x", n=3)]<|tool_call_end|>` (LFM2)
    Pythonic,
    /// `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`
    Nemotron,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]` or `[TOOL_CALLS]NAME[ARGS]{…}`
    Mistral,
    /// A message to `functions.NAME` whose body is the arguments.
    Harmony,
    /// The whole answer is `{"name": …, "parameters": {…}}` (Llama 3).
    PlainJson,
}

/// What a model's output looks like, as its chat template shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputSyntax {
    pub reasoning: ReasoningSyntax,
    /// `None` where the template shows no calls; those in any known syntax are still understood.
    pub tools: Option<ToolSyntax>,
}
