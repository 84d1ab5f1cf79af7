//! The syntax that a chat template shows.

#[path = "../support/mod.rs"]
mod support;

use dspark_text::output::{OutputSyntax, ReasoningSyntax, ToolSyntax};
use support::{Folder, family};

#[test]
fn templates_show_their_syntax() {
    for (template, reasoning, tools) in [
        ("qwen3", ReasoningSyntax::Think, Some(ToolSyntax::Hermes)),
        ("llama3", ReasoningSyntax::Think, Some(ToolSyntax::PlainJson)),
        ("channels", ReasoningSyntax::Harmony, Some(ToolSyntax::Harmony)),
        ("chatml", ReasoningSyntax::Think, None),
        ("mistral", ReasoningSyntax::Think, None),
        ("gemma", ReasoningSyntax::Think, None),
    ] {
        assert_eq!(family(template).output_syntax(), OutputSyntax { reasoning, tools }, "{template}");
    }
}

#[test]
fn calls_in_the_template_show_theirs() {
    for (call, reasoning, tools) in [
        (
            "<tool_call>\\n<function={{ c.function.name }}>",
            ReasoningSyntax::Think,
            ToolSyntax::XmlFunction,
        ),
        ("<|tool_call>call:{{ c.function.name }}", ReasoningSyntax::Think, ToolSyntax::Gemma),
        (
            "<|tool_call_start|>[{{ c.function.name }}()]<|tool_call_end|>",
            ReasoningSyntax::Think,
            ToolSyntax::Pythonic,
        ),
        (
            "<function name=\\\"{{ c.function.name }}\\\">",
            ReasoningSyntax::Think,
            ToolSyntax::MiniCpm,
        ),
        ("<TOOLCALL>[]</TOOLCALL>", ReasoningSyntax::Think, ToolSyntax::Nemotron),
        (
            "[TOOL_CALLS]{{ c.function.name }}[ARGS]",
            ReasoningSyntax::Think,
            ToolSyntax::Mistral,
        ),
        (
            " to=self<|message|> <atem:invoke name=\\\"x\\\">",
            ReasoningSyntax::Recipients,
            ToolSyntax::Atem,
        ),
    ] {
        let call = call.replace("\\n", "\n").replace("\\\"", "\"");
        let source =
            format!("{{% for m in messages %}}[{{{{ m.content }}}}{{% for c in m.tool_calls or [] %}}{call}{{% endfor %}}]{{% endfor %}}");
        let tokenizer = Folder::with("byte").template(&source).load();
        let expected = OutputSyntax {
            reasoning,
            tools: Some(tools),
        };
        assert_eq!(tokenizer.output_syntax(), expected, "{call}");
    }
}
