use super::*;
use proptest::prelude::*;
use serde_json::json;

fn one(value: &Value) -> (Import, ImportedChat) {
    let import = read(value.to_string().as_bytes()).unwrap();
    let chat = import.chats[0].clone();
    (import, chat)
}

/// The text of the shown conversation: the last child each time.
fn shown(chat: &ImportedChat) -> Vec<&str> {
    let (mut at, mut texts) = (None, Vec::new());
    while let Some(next) = chat.messages.iter().rposition(|message| message.parent == at) {
        texts.push(chat.messages[next].text.as_str());
        at = Some(next);
    }
    texts
}

fn node(id: &str, parent: Option<&str>, role: &str, content: &Value) -> (String, Value) {
    let message = json!({"author": {"role": role}, "recipient": "all", "create_time": 1_700_000_000.5, "content": content,
                         "metadata": {"model_slug": "big-model"}});
    (
        id.to_owned(),
        json!({"id": id, "parent": parent, "children": [], "message": message}),
    )
}

fn words(text: &str) -> Value {
    json!({"content_type": "text", "parts": [text]})
}

#[test]
fn chatgpt_keeps_branches_thoughts_and_the_shown_path() {
    let mut mapping: serde_json::Map<String, Value> = [
        ("root".to_owned(), json!({"id": "root", "parent": null, "message": null})),
        node("q", Some("root"), "user", &words("What is a roofline?")),
        node(
            "t",
            Some("q"),
            "assistant",
            &json!({"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "Think of bandwidth"}]}),
        ),
        node(
            "r",
            Some("t"),
            "assistant",
            &json!({"content_type": "reasoning_recap", "content": "Thought for 2 s"}),
        ),
        node("a", Some("r"), "assistant", &words("A bound by memory.")),
        node("b", Some("q"), "assistant", &words("Another answer.")),
        node(
            "p",
            Some("a"),
            "user",
            &json!({"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "and this?"]}),
        ),
        node(
            "x",
            Some("p"),
            "assistant",
            &json!({"content_type": "code", "language": "python", "text": "print(1)"}),
        ),
        node("y", Some("x"), "tool", &json!({"content_type": "execution_output", "text": "1"})),
        node("z", Some("y"), "assistant", &words("It prints 1.")),
    ]
    .into_iter()
    .collect();
    mapping["b"]["message"]["metadata"]["is_visually_hidden_from_conversation"] = json!(false);
    let (import, chat) = one(&json!([{"title": "Roofline", "create_time": 1_700_000_000.0, "mapping": mapping, "current_node": "z"}]));
    assert_eq!((import.origin, import.skipped), (Origin::ChatGpt, 0));
    assert_eq!((chat.title.as_str(), chat.created_at), ("Roofline", 1_700_000_000_000));
    assert_eq!(
        shown(&chat),
        [
            "What is a roofline?",
            "<think>\nPlan\nThink of bandwidth\n</think>\n\nA bound by memory.",
            "[picture]\n\nand this?",
            "```python\nprint(1)\n```\n\nIt prints 1.",
        ]
    );
    assert!(
        chat.messages
            .iter()
            .any(|message| message.text == "Another answer." && message.parent == Some(0))
    );
    assert_eq!(chat.messages[1].meta.model.as_deref(), Some("big-model"));
    assert_eq!(chat.messages[1].created_at, 1_700_000_000_500);
}

#[test]
fn chatgpt_leaves_out_what_was_hidden_or_meant_for_tools() {
    let mut mapping: serde_json::Map<String, Value> = [
        node("s", None, "system", &words("")),
        node("h", Some("s"), "user", &words("About me: hidden")),
        node("q", Some("h"), "user", &words("Hello")),
        node("c", Some("q"), "assistant", &words("search(\"x\")")),
        node("a", Some("c"), "assistant", &words("Hi")),
    ]
    .into_iter()
    .collect();
    mapping["h"]["message"]["metadata"]["is_visually_hidden_from_conversation"] = json!(true);
    mapping["c"]["message"]["recipient"] = json!("browser");
    let (_, chat) = one(&json!([{"title": null, "mapping": mapping}]));
    assert_eq!(shown(&chat), ["Hello", "Hi"]);
}

#[test]
fn lm_studio_versions_are_alternatives() {
    let said = |role: &str, text: &str| json!({"type": "singleStep", "role": role, "content": [{"type": "text", "text": text}]});
    let answer = json!({"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen3-8b"}, "steps": [
        {"type": "contentBlock", "style": {"type": "thinking", "ended": true}, "content": [{"type": "text", "text": "hm"}]},
        {"type": "debugInfoBlock"},
        {"type": "contentBlock", "content": [{"type": "text", "text": "Second"}]},
    ]});
    let (import, chat) = one(
        &json!({"name": "Trip", "createdAt": 1_700_000_000_123_i64, "systemPrompt": "Be brief", "messages": [
            {"versions": [said("user", "Where to?")], "currentlySelected": 0},
            {"versions": [said("assistant", "First"), answer, said("assistant", "Third")], "currentlySelected": 1},
            {"versions": [said("user", "Why?")], "currentlySelected": 0},
        ]}),
    );
    assert_eq!(import.origin, Origin::LmStudio);
    assert_eq!(chat.created_at, 1_700_000_000_123);
    assert_eq!(shown(&chat), ["Be brief", "Where to?", "<think>\nhm\n</think>\n\nSecond", "Why?"]);
    assert_eq!(chat.messages.iter().filter(|message| message.parent == Some(1)).count(), 3);
    assert!(
        chat.messages
            .iter()
            .any(|message| message.meta.model.as_deref() == Some("qwen3-8b"))
    );
}

#[test]
fn open_webui_takes_thoughts_out_of_their_folds() {
    let content = "<details type=\"reasoning\" done=\"true\" duration=\"3\">\n<summary>Thought for 3 seconds</summary>\n&gt; a &lt; b\n&gt; so\n</details>\nYes.";
    let (import, chat) = one(
        &json!([{"id": "c", "title": "Old", "created_at": 1_700_000_000, "chat": {"title": "Sums", "history": {
        "currentId": "3", "messages": {
            "1": {"id": "1", "parentId": null, "role": "user", "content": "Is a < b?", "timestamp": 1_700_000_001},
            "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "No.", "model": "m"},
            "3": {"id": "3", "parentId": "1", "role": "assistant", "content": content, "model": "m"},
            "4": {"id": "4", "parentId": "2", "role": "user", "content": "Sure?", "files": [{"type": "file"}]},
        }}}}]),
    );
    assert_eq!(import.origin, Origin::OpenWebUi);
    assert_eq!(chat.title, "Sums");
    assert_eq!(shown(&chat), ["Is a < b?", "<think>\na < b\nso\n</think>\n\nYes."]);
    assert!(chat.messages.iter().any(|message| message.text == "[attachment]\n\nSure?"));
    let (_, flat) = one(
        &json!([{"chat": {"title": "Flat", "messages": [{"id": "1", "role": "user", "content": "x"}, {"id": "2", "parentId": "1", "role": "assistant", "content": "y"}]}}]),
    );
    assert_eq!(shown(&flat), ["x", "y"]);
}

#[test]
fn the_own_export_comes_back_whole() {
    let row = |id: i64, parent: Option<i64>, shown: bool, role: &str, text: &str| {
        json!({"id": id, "parent": parent, "shown": shown, "role": role, "state": "done",
        "created_at": 5, "text": text, "reasoning": (id == 8).then_some("why"), "meta": {"model": "starter"}})
    };
    let (import, chat) = one(&json!({"format": "mlx-dspark-chat", "version": 1, "title": "T", "messages": [
        row(7, None, true, "user", "a"), row(8, Some(7), true, "assistant", "b"), row(9, Some(7), false, "assistant", "c"), row(10, Some(8), true, "user", "d"),
    ]}));
    assert_eq!(import.origin, Origin::Own);
    assert_eq!(shown(&chat), ["a", "<think>\nwhy\n</think>\n\nb", "d"]);
    assert_eq!(chat.messages.len(), 4);
    assert_eq!(chat.messages[1].meta.model.as_deref(), Some("starter"));
}

#[test]
fn what_is_no_export_is_said_to_be_none() {
    assert!(matches!(read(b"PK\x03\x04zip"), Err(ImportError::NotJson(_))));
    assert_eq!(read(b"{\"a\": 1}"), Err(ImportError::Unknown));
    assert_eq!(read(b"[]"), Err(ImportError::Unknown));
    let error = ImportError::Unknown.to_string();
    assert!(error.contains("conversations.json") && error.contains("LM Studio"), "{error}");
}

#[test]
fn broken_chats_among_others_are_counted() {
    let good = json!({"title": "x", "mapping": {"a": node("a", None, "user", &words("hi")).1}});
    let import = read(json!([good, {"mapping": {}}, 5, {"mapping": {"a": 3}}]).to_string().as_bytes()).unwrap();
    assert_eq!((import.chats.len(), import.skipped), (1, 3));
    // A circle of parents hangs on nothing; it is left out and nothing waits for its end.
    let circle = json!([{"title": "x", "current_node": "a", "mapping": {"a": node("a", Some("b"), "user", &words("1")).1, "b": node("b", Some("a"), "user", &words("2")).1}}]);
    assert_eq!(read(circle.to_string().as_bytes()).unwrap().chats.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the links are, parents stand before children and the shown path is last.
    #[test]
    fn any_links_make_a_tree(parents in prop::collection::vec(prop::option::of(0..12_usize), 1..12), current in 0..12_usize) {
        let mapping: serde_json::Map<String, Value> = parents
            .iter()
            .enumerate()
            .map(|(at, parent)| node(&format!("{at}"), parent.map(|p| format!("{p}")).as_deref(), if at % 2 == 0 { "user" } else { "assistant" }, &words(&format!("{at}"))))
            .collect();
        let import = read(json!([{"mapping": mapping, "current_node": format!("{current}")}]).to_string().as_bytes()).unwrap();
        for chat in &import.chats {
            for (at, message) in chat.messages.iter().enumerate() {
                prop_assert!(message.parent.is_none_or(|parent| parent < at));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}
