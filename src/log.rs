//! Logging for programs that have no logger of their own: `BOXWISE_LOG` names a level, lines go to stderr.
//!
//! The crate logs through the `log` facade. A Rust program installs the logger it likes; the C interface installs
//! this one, and only when the variable is set.

use crate::config;
use ::log::{LevelFilter, Log, Metadata, Record};
use std::io::Write;
use std::sync::Once;

/// Installs the logger if `BOXWISE_LOG` asks for it; from the second call on does nothing.
pub fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(wanted) = config::LOG.get() else { return };
        let logger = Stderr { rank: config::RANK.get() };
        match wanted.parse::<LevelFilter>() {
            Ok(level) => {
                // Fails when the program has a logger already, which then gets the lines.
                if ::log::set_boxed_logger(Box::new(logger)).is_ok() {
                    ::log::set_max_level(level);
                }
            }
            Err(_) => {
                let name = config::LOG.name;
                logger.write("warn", &format!("{name} is {wanted:?}, must be off, error, warn, info, debug or trace"));
            }
        }
    });
}

struct Stderr {
    rank: Option<String>,
}

impl Stderr {
    fn write(&self, level: &str, text: &str) {
        let line = match &self.rank {
            Some(rank) => format!("boxwise[{rank}] {level}: {text}\n"),
            None => format!("boxwise {level}: {text}\n"),
        };
        // One write per line, so that the lines of several ranks do not mix. A closed stderr is nobody's error.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= ::log::max_level()
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            self.write(&record.level().as_str().to_ascii_lowercase(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}
