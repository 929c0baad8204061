//! Ranks as threads of the test, with a watchdog: a hang becomes a message and an abort.

use boxwise::Communicator;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longest life of one world of threads.
const LIMIT: Duration = Duration::from_secs(150);
/// How long the others may take to come back once one has panicked.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `play` on every rank of a new world of `size` threads. Results in the order of the ranks.
pub fn in_threads<T: Send>(size: usize, play: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    let world = Communicator::threads(size).expect("a world of threads");
    together(world.into_iter().map(|comm| || play(comm)).collect())
}

/// Runs all members at once, each in a thread of its own; panics when one of them does.
pub fn together<T: Send>(members: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    let count = members.len();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for (index, member) in members.into_iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(member));
                // The receiver is gone only when the process is about to abort.
                let _ = sender.send((index, result));
            });
        }
        let mut deadline = Instant::now() + LIMIT;
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        let mut panic = None;
        for _ in 0..count {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((index, Ok(result))) => results[index] = Some(result),
                Ok((_, Err(payload))) => {
                    deadline = deadline.min(Instant::now() + GRACE);
                    panic.get_or_insert(payload);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let missing: Vec<usize> = (0..count).filter(|&rank| results[rank].is_none()).collect();
                    stuck(&format!("ranks {missing:?} did not come back"), panic.as_deref());
                }
            }
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        results.into_iter().map(|result| result.expect("every rank answered")).collect()
    })
}

/// Threads cannot be ended from outside, so the process ends; the test harness would swallow what it prints.
fn stuck(what: &str, panic: Option<&(dyn std::any::Any + Send)>) -> ! {
    let said = panic.and_then(|p| p.downcast_ref::<String>().map(String::as_str).or(p.downcast_ref::<&str>().copied()));
    let name = std::thread::current().name().unwrap_or("a thread").to_owned();
    let text = format!("\n{name}: {what}; {}\n", said.unwrap_or("none has panicked"));
    // SAFETY: the text is `len` bytes long.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    std::process::abort()
}
