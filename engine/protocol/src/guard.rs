//! What the engine does when memory runs short, as others see it.

use serde::Serialize;

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pressure {
    #[default]
    Normal,
    Warning,
    Critical,
}

impl Pressure {
    /// As macOS counts it: 1, 2 or 4.
    pub fn level(self) -> u8 {
        match self {
            Self::Normal => 1,
            Self::Warning => 2,
            Self::Critical => 4,
        }
    }
}

/// Memory that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Shed {
    /// The pressure that called for it.
    pub level: Pressure,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Bytes that MLX held, in use and spare, before and after.
    pub allocator_before: u64,
    pub allocator_after: u64,
    pub freed_bytes: u64,
    /// All kept prompts went, and not only copies within them.
    pub prompts_dropped: bool,
}

/// The engine's answer to memory pressure. Source: `spec/http-api.md` §13.1, `spec/fit-and-roofline.md` §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MemoryGuard {
    /// When it last looked: every few seconds while something is held that could be given back.
    pub level: Pressure,
    pub sheds: u64,
    pub last_shed: Option<Shed>,
    /// Seconds until the same level calls for action again.
    pub rearm_s: u64,
}
