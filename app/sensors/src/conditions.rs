use serde::{Deserialize, Serialize};

/// How hot the machine is, in the four steps that a Mac has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Heat {
    Nominal,
    /// Warm; fans may be heard.
    Fair,
    /// It slows itself.
    Serious,
    /// It slows itself as far as it can.
    Critical,
}

impl Heat {
    /// `Nominal`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nominal => "Nominal",
            Self::Fair => "Fair",
            Self::Serious => "Serious",
            Self::Critical => "Critical",
        }
    }

    /// What that means for work.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nominal => "nothing is held back by heat",
            Self::Fair => "warm, and not slower for it yet",
            Self::Serious => "hot, and slower for it",
            Self::Critical => "too hot: everything is slowed until it cools",
        }
    }
}

/// What the system trades, speed or power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerMode {
    Saving,
    Automatic,
    Performance,
}

impl PowerMode {
    /// `Saving`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saving => "Saving",
            Self::Automatic => "Automatic",
            Self::Performance => "Performance",
        }
    }
}

/// The fastest a processor may run now, and could, in GHz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    pub allowed: f64,
    pub possible: f64,
}

impl Clock {
    /// Less than what it could by more than rounding.
    pub fn is_held(self) -> bool {
        self.allowed < 0.95 * self.possible
    }
}

/// What heat and power make of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    pub heat: Option<Heat>,
    /// Of the processor, degrees Celsius.
    pub celsius: Option<f64>,
    pub clock: Option<Clock>,
    pub power_mode: Option<PowerMode>,
}

impl Conditions {
    /// What makes the machine slower than it could be, in words; `None` where nothing does.
    pub fn slows(&self) -> Option<String> {
        if let Some(heat @ (Heat::Serious | Heat::Critical)) = self.heat {
            return Some(format!("The machine is {}", heat.words()));
        }
        if let Some(clock) = self.clock.filter(|clock| clock.is_held()) {
            return Some(format!(
                "The processor is held to {:.1} of its {:.1} GHz",
                clock.allowed, clock.possible
            ));
        }
        (self.power_mode == Some(PowerMode::Saving)).then(|| "The system saves power, which costs speed".into())
    }
}
