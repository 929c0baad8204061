//! The options of a reshape, on which all ranks must agree.

use bytemuck::{Pod, Zeroable};
use serde::Serialize;

/// Where the data lives and who moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// NVSHMEM where it is initialised, else the host.
    Auto,
    /// Host memory, moved by the processor.
    Host,
    /// Device memory, moved by NVSHMEM kernels.
    Nvshmem,
}

/// What is true when an operation is complete on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitSync {
    /// Its output is whole.
    Output,
    /// Its output is whole and its input may be reused.
    Input,
    /// Both, on every rank.
    Everyone,
}

/// The name of an option; the numbers are part of the ABI.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is explained by the field of `Options` that it sets
pub enum OptionName {
    Backend = 0,
    InPlace = 1,
    AllowReplicas = 2,
    AllowUncovered = 3,
    EntrySync = 4,
    ExitSync = 5,
    Threads = 6,
    TimeoutMs = 7,
}

/// The options of a reshape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Where the data lives.
    pub backend: Backend,
    /// The output may overlap the input, which is then consumed.
    pub in_place: bool,
    /// Input boxes may overlap and hold equal data.
    pub allow_replicas: bool,
    /// Output elements that no input holds are left untouched.
    pub allow_uncovered: bool,
    /// Wait for the peers' buffers to be ready; `false` when the caller vouches for it.
    pub entry_sync: bool,
    /// What completion means.
    pub exit_sync: ExitSync,
    /// Host copy threads of this rank, 1 to [`Options::MOST_THREADS`].
    pub threads: u32,
    /// Longest wait in milliseconds; 0 waits for ever.
    pub timeout_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backend: Backend::Auto,
            in_place: false,
            allow_replicas: false,
            allow_uncovered: false,
            entry_sync: true,
            exit_sync: ExitSync::Input,
            threads: 1,
            timeout_ms: 0,
        }
    }
}

impl OptionName {
    /// Every option, in the order of its number.
    pub const ALL: [OptionName; 8] = [
        OptionName::Backend,
        OptionName::InPlace,
        OptionName::AllowReplicas,
        OptionName::AllowUncovered,
        OptionName::EntrySync,
        OptionName::ExitSync,
        OptionName::Threads,
        OptionName::TimeoutMs,
    ];

    /// The option with this number, if there is one.
    pub fn from_code(code: i32) -> Option<OptionName> {
        OptionName::ALL.into_iter().find(|name| *name as i32 == code)
    }

    /// The name as C programs write it.
    pub fn c_name(self) -> &'static str {
        match self {
            OptionName::Backend => "BOXWISE_OPTION_BACKEND",
            OptionName::InPlace => "BOXWISE_OPTION_IN_PLACE",
            OptionName::AllowReplicas => "BOXWISE_OPTION_ALLOW_REPLICAS",
            OptionName::AllowUncovered => "BOXWISE_OPTION_ALLOW_UNCOVERED",
            OptionName::EntrySync => "BOXWISE_OPTION_ENTRY_SYNC",
            OptionName::ExitSync => "BOXWISE_OPTION_EXIT_SYNC",
            OptionName::Threads => "BOXWISE_OPTION_THREADS",
            OptionName::TimeoutMs => "BOXWISE_OPTION_TIMEOUT_MS",
        }
    }
}

/// The options as the ranks send them to one another: the value of each, by number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct OptionValues(pub(super) [i64; OptionName::ALL.len()]);

impl Options {
    /// The most copy threads a rank may ask for.
    pub const MOST_THREADS: u32 = 1024;

    /// Sets the option to the value that C programs give it, or says what is wrong with the value.
    pub fn set(&mut self, name: OptionName, value: i64) -> Result<(), String> {
        let flag = || match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(format!("{} is {value}, must be 0 or 1", name.c_name())),
        };
        let out_of_range =
            |least: i64, most: i64| Err(format!("{} is {value}, must be {least} to {most}", name.c_name()));
        match name {
            OptionName::Backend => {
                self.backend = match value {
                    0 => Backend::Auto,
                    1 => Backend::Host,
                    2 => Backend::Nvshmem,
                    _ => return out_of_range(0, 2),
                }
            }
            OptionName::InPlace => self.in_place = flag()?,
            OptionName::AllowReplicas => self.allow_replicas = flag()?,
            OptionName::AllowUncovered => self.allow_uncovered = flag()?,
            OptionName::EntrySync => self.entry_sync = flag()?,
            OptionName::ExitSync => {
                self.exit_sync = match value {
                    0 => ExitSync::Output,
                    1 => ExitSync::Input,
                    2 => ExitSync::Everyone,
                    _ => return out_of_range(0, 2),
                }
            }
            OptionName::Threads => match u32::try_from(value) {
                Ok(threads) if (1..=Options::MOST_THREADS).contains(&threads) => self.threads = threads,
                _ => return out_of_range(1, Options::MOST_THREADS as i64),
            },
            OptionName::TimeoutMs => match u64::try_from(value) {
                Ok(timeout_ms) => self.timeout_ms = timeout_ms,
                Err(_) => return out_of_range(0, i64::MAX),
            },
        }
        Ok(())
    }

    /// The options with these values, or what is wrong with one of them.
    pub(super) fn from_values(values: &OptionValues) -> Result<Options, String> {
        let mut options = Options::default();
        for (name, value) in OptionName::ALL.into_iter().zip(values.0) {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// Whether every field, set directly from Rust perhaps, is in its range.
    pub fn check(&self) -> Result<(), String> {
        Options::from_values(&self.values()).map(|_| ())
    }

    /// The value of every option, by number.
    pub(super) fn values(&self) -> OptionValues {
        OptionValues(OptionName::ALL.map(|name| match name {
            OptionName::Backend => self.backend as i64,
            OptionName::InPlace => self.in_place as i64,
            OptionName::AllowReplicas => self.allow_replicas as i64,
            OptionName::AllowUncovered => self.allow_uncovered as i64,
            OptionName::EntrySync => self.entry_sync as i64,
            OptionName::ExitSync => self.exit_sync as i64,
            OptionName::Threads => self.threads as i64,
            OptionName::TimeoutMs => self.timeout_ms as i64,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_can_be_set_and_keeps_its_number() {
        for (number, name) in OptionName::ALL.into_iter().enumerate() {
            assert_eq!(OptionName::from_code(number as i32), Some(name));
            let mut options = Options::default();
            let other = 1 + Options::default().values().0[number];
            let other = if matches!(name, OptionName::EntrySync) { 0 } else { other };
            options.set(name, other).unwrap();
            for (at, (value, default)) in options.values().0.iter().zip(Options::default().values().0).enumerate() {
                assert_eq!(*value, if at == number { other } else { default }, "{}", name.c_name());
            }
            assert_eq!(Options::from_values(&options.values()), Ok(options));
        }
        assert_eq!(OptionName::from_code(8), None);
        assert_eq!(OptionName::from_code(-1), None);
    }

    #[test]
    fn values_out_of_range_are_told_by_name() {
        for name in OptionName::ALL {
            for value in [-1, i64::MIN, 1025, i64::MAX] {
                if name == OptionName::TimeoutMs && value > 0 {
                    continue;
                }
                let mut options = Options::default();
                let fault = options.set(name, value).unwrap_err();
                assert!(fault.contains(name.c_name()) && fault.contains(&value.to_string()), "{fault}");
                assert_eq!(options, Options::default());
            }
        }
        assert!(Options { threads: 0, ..Options::default() }.check().is_err());
        assert!(Options { timeout_ms: u64::MAX, ..Options::default() }.check().is_err());
        assert!(Options::default().check().is_ok());
    }
}
