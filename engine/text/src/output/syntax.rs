//! How a model marks its output, as its chat template shows.

use dspark_protocol::{OutputSyntax, ReasoningSyntax, ToolSyntax};

/// `shown`: what the template writes around a conversation with reasoning and a call. `source`: the template.
pub(crate) fn of_template(shown: &str, source: &str) -> OutputSyntax {
    let both = [shown, source];
    OutputSyntax {
        reasoning: reasoning(shown, source),
        tools: both.into_iter().find_map(tools),
    }
}

fn reasoning(shown: &str, source: &str) -> ReasoningSyntax {
    let has = |mark: &str| shown.contains(mark) || source.contains(mark);
    if has("<|message|>") && has("<|channel|>") {
        ReasoningSyntax::Harmony
    } else if has("<|message|>") && has("to=self") {
        ReasoningSyntax::Recipients
    } else if has("<|channel>") {
        ReasoningSyntax::ThoughtChannel
    } else {
        // Even a template without reasoning may belong to a model that thinks; in front of an answer the mark is plain.
        ReasoningSyntax::Think
    }
}

fn tools(text: &str) -> Option<ToolSyntax> {
    let marks = [
        ("<|tool_call>", ToolSyntax::Gemma),
        ("<|tool_call_start|>", ToolSyntax::Pythonic),
        ("<atem:invoke", ToolSyntax::Atem),
        ("<function name=", ToolSyntax::MiniCpm),
        ("<function=", ToolSyntax::XmlFunction),
        ("<TOOLCALL>", ToolSyntax::Nemotron),
        ("[TOOL_CALLS]", ToolSyntax::Mistral),
        ("to=functions.", ToolSyntax::Harmony),
        ("<tool_call>", ToolSyntax::Hermes),
        ("<|python_tag|>", ToolSyntax::PlainJson),
        ("\"parameters\": ", ToolSyntax::PlainJson),
    ];
    marks.into_iter().find(|(mark, _)| text.contains(mark)).map(|(_, syntax)| syntax)
}
