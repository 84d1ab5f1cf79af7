use dspark_protocol::{Message, Role};

/// Brings a conversation into the form that chat templates accept, since most refuse a system message after the first
/// turn. Source: `spec/http-api.md` §2.1 and §5.3.
///
/// * System messages at the start become one, joined by a blank line.
/// * A later one becomes a `<system-reminder>` in the user turn next to it: appended where a user turn comes right
///   before it, else put before the user turn right after it, else a user turn of its own. Nothing moves across another
///   turn: what was said before stays the same tokens, and the prompt cache keeps its worth.
/// * Nothing else changes: what a template refuses, it refuses in its own words.
pub fn normalize(messages: &[Message]) -> Vec<Message> {
    let leading = messages.iter().take_while(|message| message.role == Role::System).count();
    let (system, rest) = messages.split_at(leading);
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    if let Some((first, others)) = system.split_first() {
        let mut first = first.clone();
        for other in others.iter().filter(|other| !other.content.is_empty()) {
            if !first.content.is_empty() {
                first.content.push_str("\n\n");
            }
            first.content.push_str(&other.content);
        }
        out.push(first);
    }
    // Reminders that wait for the user turn after them.
    let mut waiting: Vec<String> = Vec::new();
    for message in rest {
        if message.role == Role::System {
            let reminder = format!("<system-reminder>\n{}\n</system-reminder>", message.content);
            match out.last_mut() {
                Some(user) if user.role == Role::User && waiting.is_empty() => append(&mut user.content, &reminder),
                _ => waiting.push(reminder),
            }
            continue;
        }
        let mut message = message.clone();
        if !waiting.is_empty() {
            let mut content = std::mem::take(&mut waiting).join("\n");
            if message.role == Role::User {
                append(&mut content, &message.content);
                message.content = content;
            } else {
                out.push(Message::user(content));
            }
        }
        out.push(message);
    }
    if !waiting.is_empty() {
        out.push(Message::user(waiting.join("\n")));
    }
    out
}

fn append(content: &mut String, more: &str) {
    if !content.is_empty() && !more.is_empty() {
        content.push('\n');
    }
    content.push_str(more);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    fn shape(messages: &[Message]) -> Vec<(Role, &str)> {
        messages.iter().map(|message| (message.role, message.content.as_str())).collect()
    }

    #[test]
    fn leading_system_messages_become_one() {
        let messages = normalize(&[Message::system("A"), Message::system(""), Message::system("B"), Message::user("hi")]);
        assert_eq!(shape(&messages), [(Role::System, "A\n\nB"), (Role::User, "hi")]);
    }

    /// Case ag-002.
    #[test]
    fn a_later_system_message_stays_where_it_was_said() {
        let messages = normalize(&[
            Message::system("S"),
            Message::user("hi"),
            Message::system("be brief."),
            Message::user("go"),
        ]);
        let reminder = "hi\n<system-reminder>\nbe brief.\n</system-reminder>";
        assert_eq!(shape(&messages), [(Role::System, "S"), (Role::User, reminder), (Role::User, "go")]);
    }

    #[test]
    fn a_reminder_does_not_cross_another_turn() {
        let messages = normalize(&[
            Message::user("q"),
            Message::assistant("a"),
            Message::system("x"),
            Message::system("y"),
            Message::user("r"),
        ]);
        let reminder = "<system-reminder>\nx\n</system-reminder>\n<system-reminder>\ny\n</system-reminder>\nr";
        assert_eq!(
            shape(&messages),
            [(Role::User, "q"), (Role::Assistant, "a"), (Role::User, reminder)]
        );

        let messages = normalize(&[
            Message::user("q"),
            Message::assistant("a"),
            Message::system("x"),
            Message::assistant("b"),
            Message::system("z"),
        ]);
        let turns: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(turns, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
        assert!(messages[4].content.contains('z'));
    }

    #[test]
    fn a_plain_conversation_is_untouched() {
        let plain = [
            Message::system("S"),
            Message::user("q"),
            Message::assistant("a"),
            Message::user("r"),
        ];
        assert_eq!(normalize(&plain), plain);
        assert!(normalize(&[]).is_empty());
    }
}
