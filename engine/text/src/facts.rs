//! What a chat template can do, found by trying it.

use crate::{
    chat::Renderer,
    context::{Conversation, Plain},
};
use dspark_protocol::{Message, Role, TemplateOptions, ToolCall};
use serde_json::json;
use std::collections::BTreeMap;

/// Efforts from least to most, as clients send them.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
/// Those that templates are tried with.
const TRIED: [&str; 4] = ["low", "medium", "high", "xhigh"];

/// What the chat template reacts to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    pub has_template: bool,
    /// `enable_thinking` or a reasoning effort changes the prompt, or the prompt opens a block of reasoning.
    pub supports_thinking: bool,
    /// `enable_thinking` changes the prompt.
    pub thinking_switch: bool,
    /// Tool descriptions reach the prompt.
    pub supports_tools: bool,
    /// Accepted values of `reasoning_effort`, from least to most; empty when the template ignores it.
    pub reasoning_efforts: Vec<String>,
}

impl TemplateFacts {
    /// Tries the template with a dozen small conversations.
    pub(crate) fn probe(renderer: &Renderer, specials: &BTreeMap<String, String>) -> Self {
        let render = |options: &TemplateOptions| render(renderer, specials, &[Message::user("x")], options);
        let plain = TemplateOptions::default();
        let bare = render(&plain);
        let thinking = |on| TemplateOptions {
            enable_thinking: Some(on),
            ..plain.clone()
        };
        let on = render(&thinking(true));
        let off = render(&thinking(false));
        let thinking_switch = on != off;
        let with_tools = render(&TemplateOptions {
            tools: vec![tool()],
            ..plain.clone()
        });
        let reasoning_efforts = efforts(
            &|effort| {
                render(&TemplateOptions {
                    enable_thinking: Some(true),
                    reasoning_effort: Some(effort.to_owned()),
                    ..plain.clone()
                })
            },
            on.as_deref(),
        );
        let opens = bare.as_deref().is_some_and(|prompt| crate::thinking::left_open(prompt).is_some());
        Self {
            has_template: true,
            supports_thinking: thinking_switch || opens || !reasoning_efforts.is_empty(),
            thinking_switch,
            supports_tools: with_tools.as_deref().is_some_and(|prompt| prompt.contains(TOOL)) && with_tools != bare,
            reasoning_efforts,
        }
    }

    /// The accepted effort nearest to `asked`, of two equally near the lesser. `None` when the template takes none,
    /// or when `asked` is not an effort.
    pub fn nearest_effort(&self, asked: &str) -> Option<&str> {
        let place = |effort: &str| EFFORTS.iter().position(|known| known.eq_ignore_ascii_case(effort));
        let asked = place(asked)?;
        let known = self.reasoning_efforts.iter().filter_map(|effort| Some((place(effort)?, effort)));
        known
            .min_by_key(|(at, _)| (at.abs_diff(asked), *at))
            .map(|(_, effort)| effort.as_str())
    }
}

const TOOL: &str = "qx_probe_tool";
const NONSENSE: &str = "qx_probe_effort";

/// Renders with each effort. A template that reads none renders them all alike; one that prints whatever it is given
/// shows the nonsense, and is taken at its family's word (low, medium, high); one with a default branch treats
/// nonsense as its default, of which only `medium` is kept.
fn efforts(render: &dyn Fn(&str) -> Option<String>, without: Option<&str>) -> Vec<String> {
    let nonsense = render(NONSENSE);
    let rendered: Vec<(&str, String)> = TRIED.into_iter().filter_map(|effort| Some((effort, render(effort)?))).collect();
    let Some((_, first)) = rendered.first() else { return Vec::new() };
    let ignored = rendered.iter().all(|(_, text)| text == first) && nonsense.as_deref().is_none_or(|text| text == first);
    if ignored && without == Some(first.as_str()) {
        return Vec::new();
    }
    let echoed = nonsense.as_deref().is_some_and(|text| text.contains(NONSENSE));
    rendered
        .into_iter()
        .filter(|(effort, text)| match &nonsense {
            None => true,
            Some(_) if echoed => *effort != "xhigh",
            Some(default) => text != default || *effort == "medium",
        })
        .map(|(effort, _)| effort.to_owned())
        .collect()
}

fn render(renderer: &Renderer, specials: &BTreeMap<String, String>, messages: &[Message], options: &TemplateOptions) -> Option<String> {
    let conversation = Conversation {
        messages,
        options,
        generation_prompt: true,
        specials,
        end_mark: None,
    };
    renderer
        .select(options)
        .render(conversation.context(&Plain), conversation.size())
        .ok()
}

fn tool() -> serde_json::Value {
    let parameters = json!({"type": "object", "properties": {"x": {"type": "string", "description": "x"}}, "required": ["x"]});
    json!({"type": "function", "function": {"name": TOOL, "description": "x", "parameters": parameters}})
}

/// Does the template go beyond its limits even on one word?
pub(crate) fn is_hopeless(renderer: &Renderer, specials: &BTreeMap<String, String>) -> bool {
    let conversation = Conversation {
        messages: &[Message::user("x")],
        options: &TemplateOptions::default(),
        generation_prompt: true,
        specials,
        end_mark: None,
    };
    let rendered = renderer
        .select(conversation.options)
        .render(conversation.context(&Plain), conversation.size());
    matches!(rendered, Err(crate::TextError::TemplateLimit { .. }))
}

/// What the template writes by itself around a plain conversation, and around one with everything in it.
pub(crate) fn own_words(renderer: &Renderer, specials: &BTreeMap<String, String>) -> (String, String) {
    let plain = [
        Message::user("x"),
        Message::assistant("x"),
        Message::user("x"),
        Message::assistant("x"),
        Message::user("x"),
    ];
    let mut call = Message::assistant("x");
    call.reasoning = Some("x".into());
    call.tool_calls = vec![ToolCall {
        id: "x00000001".into(),
        name: TOOL.into(),
        arguments: json!({"x": "x"}),
    }];
    let mut result = Message {
        role: Role::Tool,
        ..Message::user("x")
    };
    result.tool_call_id = Some("x00000001".into());
    result.name = Some(TOOL.into());
    let full = [
        Message::system("x"),
        Message::user("x"),
        call,
        result,
        Message::assistant("x"),
        Message::user("x"),
    ];

    let all = |messages: &[Message], options: TemplateOptions, generation_prompt: bool| {
        let conversation = Conversation {
            messages,
            options: &options,
            generation_prompt,
            specials,
            end_mark: None,
        };
        let rendered = renderer.select(&options).render(conversation.context(&Plain), conversation.size());
        rendered.unwrap_or_default()
    };
    let turns = all(&plain, TemplateOptions::default(), false)
        + "\n"
        + &all(&[&[Message::system("x")], &plain[..]].concat(), TemplateOptions::default(), false);
    let mut inner = String::new();
    for thinking in [None, Some(true), Some(false)] {
        for tools in [Vec::new(), vec![tool()]] {
            let options = TemplateOptions {
                enable_thinking: thinking,
                tools,
                ..TemplateOptions::default()
            };
            inner += &all(&full, options.clone(), true);
            // Up to the tool's result: some templates keep reasoning only there.
            inner += &all(&full[..4], options.clone(), true);
            inner += &all(&full[1..3], options, false);
        }
    }
    (turns, inner)
}
