use crate::{Message, MessageState};
use std::collections::{BTreeMap, HashMap};

/// A session in memory: messages, their children, and the path that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    messages: BTreeMap<i64, Message>,
    children: HashMap<Option<i64>, Vec<i64>>,
    active_root: Option<i64>,
}

/// Where a message stands among its siblings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternatives {
    /// Counted from 0, oldest first.
    pub index: usize,
    pub ids: Vec<i64>,
}

impl Tree {
    pub fn new(messages: Vec<Message>, active_root: Option<i64>) -> Self {
        let mut tree = Self {
            active_root,
            ..Self::default()
        };
        for message in messages {
            tree.index(message);
        }
        tree
    }

    fn index(&mut self, message: Message) {
        // A message whose parent was deleted stays with it: it is reachable again when the parent is restored.
        self.children.entry(message.parent).or_default().push(message.id);
        self.messages.insert(message.id, message);
    }

    /// Adds a message and makes its parent go on with it.
    pub fn add(&mut self, message: Message) {
        let (parent, id) = (message.parent, message.id);
        self.index(message);
        self.activate(parent, id);
    }

    /// Takes a message out; what hangs below it stays and comes back with [`Tree::restore`].
    pub fn remove(&mut self, id: i64) -> Option<Message> {
        let message = self.messages.remove(&id)?;
        if let Some(siblings) = self.children.get_mut(&message.parent) {
            siblings.retain(|sibling| *sibling != id);
        }
        Some(message)
    }

    /// Puts back what [`Tree::remove`] took.
    pub fn restore(&mut self, message: Message) {
        let (parent, id) = (message.parent, message.id);
        self.index(message);
        if let Some(siblings) = self.children.get_mut(&parent) {
            siblings.sort_unstable();
        }
        self.activate(parent, id);
    }

    pub fn activate(&mut self, parent: Option<i64>, child: i64) {
        match parent {
            Some(parent) => {
                if let Some(parent) = self.messages.get_mut(&parent) {
                    parent.active_child = Some(child);
                }
            }
            None => self.active_root = Some(child),
        }
    }

    pub fn get(&self, id: i64) -> Option<&Message> {
        self.messages.get(&id)
    }

    pub fn get_mut(&mut self, id: i64) -> Option<&mut Message> {
        self.messages.get_mut(&id)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// The conversation as shown, first message first.
    pub fn path(&self) -> Vec<i64> {
        let mut path = Vec::new();
        let mut parent = None;
        let mut wanted = self.active_root;
        while let Some(next) = self.next(parent, wanted) {
            path.push(next);
            parent = Some(next);
            wanted = self.messages.get(&next).and_then(|message| message.active_child);
            // Ids grow downwards, so a path cannot be longer than the tree; a damaged link must not loop.
            if path.len() > self.messages.len() {
                break;
            }
        }
        path
    }

    fn next(&self, parent: Option<i64>, wanted: Option<i64>) -> Option<i64> {
        let children = self.children.get(&parent)?;
        wanted.filter(|id| children.contains(id)).or_else(|| children.last().copied())
    }

    /// The path from the first message down to `id`, whichever alternatives are shown now.
    pub fn path_to(&self, id: i64) -> Vec<i64> {
        let mut path = Vec::new();
        let mut at = Some(id);
        while let Some(message) = at.and_then(|id| self.messages.get(&id)) {
            path.push(message.id);
            at = message.parent;
            if path.len() > self.messages.len() {
                break;
            }
        }
        path.reverse();
        path
    }

    /// Siblings of a message, itself included.
    pub fn alternatives(&self, id: i64) -> Alternatives {
        let ids = self
            .messages
            .get(&id)
            .and_then(|message| self.children.get(&message.parent))
            .cloned()
            .unwrap_or_default();
        let index = ids.iter().position(|sibling| *sibling == id).unwrap_or(0);
        Alternatives { index, ids }
    }

    /// The last shown message.
    pub fn leaf(&self) -> Option<&Message> {
        self.path().last().and_then(|id| self.messages.get(id))
    }

    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    pub fn is_streaming(&self) -> bool {
        self.messages.values().any(|message| message.state == MessageState::Streaming)
    }
}
