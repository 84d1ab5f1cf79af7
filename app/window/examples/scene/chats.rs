use dspark_sessions::{Finish, Message, MessageState, Meta, Role, Store, Usage, now};
use std::{error::Error, path::Path};

/// The chat that the pictures show; it is the newest.
pub const FIRST: i64 = 9;
/// The one of 200,000 tokens, by four characters a token.
pub const LONG: i64 = 20_000;
/// Bytes of the reply after which the picture is taken.
pub const PAUSE_AT: usize = ANSWER.len() - 46;

pub const THOUGHT: &str = "<think>\nSorting by start fails on one long meeting. By end, the exchange argument works, and `retain` keeps it in place.\n</think>\n\n";

pub const QUESTION: &str = "Pick the most meetings that don’t overlap from a list of spans. Rust, no crates, and tell me why greedy works.";

pub const ANSWER: &str = "Sort by end time, then walk once and keep every span that starts at or after the last kept end.

```rust
pub fn max_disjoint(mut v: Vec<Span>) -> Vec<Span> {
    v.sort_unstable_by_key(|s| s.end);
    let mut last = 0;
    v.retain(|s| {
        let keep = s.start >= last;
        if keep { last = s.end }   // half-open: touching is fine
        keep
    });
    v
}
```

The greedy choice is safe by exchange: take any optimal schedule and swap its first span for the one that ends earliest. It still \
fits, because it ends no later, and the count is unchanged. Repeat from there and the optimal schedule turns into ours without losing \
a meeting. Sorting costs `O(n log n)`; the walk is linear and in place, so no extra memory is needed beyond the sort itself.";

/// What the engine says when one plays with it.
pub const PLAY: &str = "Here is a **short tour** of what replies can hold.

1. Numbered steps, with `inline code` and [a link](https://example.org).
2. Tasks:
   - [x] render a list
   - [ ] forget nothing

> A quote, for the record. 引用も、이모지도 😀 works.

| Operation | Cost | Note |
|:--|--:|---|
| sort | O(n log n) | once |
| walk | O(n) | in place |

```python
def merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    \"\"\"Join overlapping spans.\"\"\"
    out = []
    for start, end in sorted(spans):  # by start
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
```

That is all.";

/// Titles and how many days ago, oldest first.
const OTHERS: [(&str, i64); 8] = [
    ("Draft reply to landlord", 6),
    ("Budget CSV to chart", 5),
    ("Explain RoPE scaling", 4),
    ("Regex for semver ranges", 3),
    ("Trip plan, Lisbon in March", 1),
    ("SQL window functions recap", 1),
    ("Why is my matvec bound?", 0),
    ("Rewrite the release notes", 0),
];

/// As a drafting pair would have written it.
fn sources(text: &str) -> String {
    let state = super::Pair::Drafting.state();
    let mut words = text.split_inclusive(' ');
    let mut all = String::new();
    for round in dspark_protocol::double::speculation::Rounds::new(&state) {
        for source in round.sources() {
            let Some(word) = words.next() else { return all };
            let letter = match source {
                dspark_protocol::Source::Draft => 'd',
                dspark_protocol::Source::Lookup => 'l',
                dspark_protocol::Source::Corrected => 'c',
                dspark_protocol::Source::Target => 't',
            };
            all.push(letter);
            all.push_str(&word.len().to_string());
        }
    }
    all
}

/// Fills the chats; the dates are set by hand afterwards, because the store only knows now.
pub fn write(data: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let opened = Store::open(data)?;
    let store = opened.store;
    let mut message = 0;
    let mut add = |session: i64, parent: Option<i64>, role: Role, text: &str, meta: Meta| {
        message += 1;
        store.insert_message(Message {
            id: message,
            session,
            parent,
            role,
            text: text.into(),
            state: MessageState::Done,
            meta,
            created_at: now(),
            active_child: None,
        });
        message
    };
    for (index, (title, _)) in OTHERS.iter().enumerate() {
        let id = index as i64 + 1;
        store.insert_session(id, *title);
        add(id, None, Role::User, title, Meta::default());
    }
    store.insert_session(FIRST, "Interval scheduling in Rust");
    let question = add(FIRST, None, Role::User, QUESTION, Meta::default());
    let meta = Meta {
        model: Some("Qwen3-8B-8bit".into()),
        usage: Some(Usage {
            prompt: 726,
            cached: 512,
            completion: 268,
            reasoning: 0,
        }),
        ttft: Some(0.42),
        decode_rate: Some(66.2),
        end_to_end_rate: Some(58.7),
        accept: Some(3.06),
        multiple: Some(2.41),
        cap: Some(4),
        mode: Some("dspark".into()),
        sources: sources(ANSWER),
        finish: Some(Finish::Stop),
        seed: Some(7),
        ..Meta::default()
    };
    add(FIRST, Some(question), Role::Assistant, ANSWER, meta);
    store.flush()?;
    drop(store);
    let db = rusqlite::Connection::open(data.join("chats.db"))?;
    let midnight = jiff::ZonedDateTime::now().start_of_day()?.timestamp().as_millisecond();
    for (index, (_, days)) in OTHERS.iter().enumerate() {
        // Midday of that day, or just now: the headings are the same at every hour.
        let noon = midnight - days * 24 * 3_600_000 + 12 * 3_600_000;
        let at = if *days == 0 { now() - 1000 } else { noon } + index as i64;
        db.execute("UPDATE session SET updated_at = ? WHERE id = ?", (at, index as i64 + 1))?;
    }
    Ok(())
}

/// A long chat, and ten thousand short ones of the last three years.
pub fn write_many(data: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    const DAY: i64 = 86_400_000;
    let store = Store::open(data)?.store;
    let mut id = 100_000;
    let mut add = |session: i64, parent: Option<i64>, role: Role, text: String| {
        id += 1;
        store.insert_message(Message {
            id,
            session,
            parent,
            role,
            text,
            state: MessageState::Done,
            meta: Meta::default(),
            created_at: now(),
            active_child: None,
        });
        Some(id)
    };
    for session in 0..10_000 {
        let (title, _) = OTHERS[session as usize % OTHERS.len()];
        store.insert_session_at(100 + session, format!("{title} {session}"), now() - session * 3 * DAY / 28);
        let asked = add(100 + session, None, Role::User, format!("{title}, once more ({session})?"));
        add(100 + session, asked, Role::Assistant, ANSWER.into());
    }
    store.insert_session(LONG, "A long chat");
    let (mut parent, mut characters) = (None, 0);
    while characters < 800_000 {
        for (role, text) in [(Role::User, QUESTION.to_owned()), (Role::Assistant, [PLAY, ANSWER].join("\n\n"))] {
            characters += text.len();
            parent = add(LONG, parent, role, text);
        }
    }
    store.flush()?;
    store.close();
    Ok(())
}
