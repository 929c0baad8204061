//! The waiting protocol under a model checker: every interleaving, and every order that the memory model allows.
//!
//! Runs with `RUSTFLAGS="--cfg loom" cargo test --test loom`; without the flag there is nothing in it.
//! The files under test are the library's own; only the atomics and the futex beneath them are the model's.
#![cfg(loom)]

#[path = "../src/transport/bell.rs"]
mod bell;
#[path = "../src/transport/slot.rs"]
mod slot;

/// What `src/transport/sync.rs` offers, by loom. Timeouts never fire here: a lost wake-up is a deadlock.
mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        /// Stands for the kernel's lock on the futex: comparing the word and falling asleep are one step.
        static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub fn futex_wait(word: &AtomicU32, expected: u32, _most: Duration) {
        let guard = KERNEL.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(KERNEL.1.wait(guard).unwrap());
        }
    }

    pub fn futex_wake(_word: &AtomicU32) {
        let _guard = KERNEL.0.lock().unwrap();
        KERNEL.1.notify_all();
    }
}

use bell::Bell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use slot::{Operation, Post, Reach, Slot};
use std::time::Duration;

/// Sleeps as the library does: on the own bell, until `has_news`.
fn wait_for(bell: &Bell, mut has_news: impl FnMut() -> bool) {
    while !has_news() {
        let mut found = false;
        bell.sleep_unless(Duration::MAX, || {
            found = has_news();
            found
        });
        if found {
            return;
        }
    }
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Bell::new(), AtomicU32::new(0)));
        let ringer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            ringer.1.store(1, Ordering::Release);
            ringer.0.ring();
        });
        wait_for(&shared.0, || shared.1.load(Ordering::Acquire) == 1);
        thread.join().unwrap();
    });
}

#[test]
fn news_of_two_ringers_both_arrive() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((Bell::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let ringers = [0, 1].map(|which| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let news = if which == 0 { &shared.1 } else { &shared.2 };
                news.store(1, Ordering::Release);
                shared.0.ring();
            })
        });
        let both = || shared.1.load(Ordering::Acquire) == 1 && shared.2.load(Ordering::Acquire) == 1;
        wait_for(&shared.0, both);
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}

struct Rank {
    slot: Slot,
    bell: Bell,
    /// Stands for the rank's input; operation `n` sends the value `n`.
    data: AtomicU32,
}

/// What a rank posts: its place tells the operation, so that a reader sees when it got another one's.
fn post_of(operation: Operation, fault: i32) -> Post {
    let reach = |n: Operation| Reach { segment: n as u64, address: n as u64 + 100 };
    Post { fault, source: reach(operation), target: reach(operation + 50) }
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Waits for the peer's post, reads its input, and waits until its own has been read.
    Exchanges,
    /// As above, without waiting for its reader: exit synchronisation 0.
    LeavesEarly,
    /// Its arguments are wrong each time: posts that, and waits for nobody.
    Faulty,
}

/// One rank's side of some operations, in the order of `exec`.
fn run(ranks: &[Rank; 2], own: usize, operations: Operation, role: Role, peer_role: Role) {
    let (me, peer) = (&ranks[own], &ranks[1 - own]);
    let fault = |role| if role == Role::Faulty { 1 } else { 0 };
    for operation in 1..=operations {
        wait_for(&me.bell, || peer.slot.is_done(operation.wrapping_sub(2)));
        if role == Role::Exchanges {
            me.data.store(operation, Ordering::Relaxed);
        }
        me.slot.post(operation, &post_of(operation, fault(role)));
        if role != Role::Faulty {
            peer.bell.ring();
            let mut theirs = None;
            wait_for(&me.bell, || {
                theirs = peer.slot.read(operation);
                theirs.is_some()
            });
            assert_eq!(theirs, Some(post_of(operation, fault(peer_role))), "a post was overwritten too early");
            if peer_role == Role::Exchanges {
                assert_eq!(peer.data.load(Ordering::Relaxed), operation, "the input was not the posted one");
            }
        }
        me.slot.set_done(operation);
        me.slot.set_complete(operation, 7 * operation as u64);
        peer.bell.ring();
        if role == Role::Exchanges && peer_role != Role::Faulty {
            wait_for(&me.bell, || peer.slot.is_done(operation));
            let mut outcome = None;
            wait_for(&me.bell, || {
                outcome = peer.slot.outcome(operation);
                outcome.is_some()
            });
            assert_eq!(outcome, Some(7 * operation as u64), "the outcome was not the operation's");
        }
    }
}

fn check_operations(operations: Operation, roles: [Role; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let rank = || Rank { slot: Slot::new(), bell: Bell::new(), data: AtomicU32::new(0) };
        let ranks = Arc::new([rank(), rank()]);
        let other = Arc::clone(&ranks);
        let thread = thread::spawn(move || run(&other, 1, operations, roles[1], roles[0]));
        run(&ranks, 0, operations, roles[0], roles[1]);
        thread.join().unwrap();
    });
}

#[test]
fn inputs_are_those_of_the_operation() {
    check_operations(2, [Role::Exchanges, Role::Exchanges]);
}

#[test]
fn posts_are_read_whole_and_in_time() {
    check_operations(3, [Role::LeavesEarly, Role::LeavesEarly]);
}

#[test]
fn a_faulty_rank_does_not_run_ahead_of_its_readers() {
    check_operations(3, [Role::Faulty, Role::LeavesEarly]);
}

/// One rank withdraws its post and leaves when its peer does not use its memory; the peer uses it unless withdrawn.
#[test]
fn nobody_uses_the_memory_of_a_rank_that_has_left() {
    loom::model(|| {
        let slots = Arc::new([Slot::new(), Slot::new()]);
        let memory = Arc::new(loom::cell::UnsafeCell::new(0));
        slots[0].post(1, &post_of(1, 0));
        let (peer_slots, peer_memory) = (Arc::clone(&slots), Arc::clone(&memory));
        let peer = thread::spawn(move || {
            peer_slots[1].post(1, &post_of(1, 0));
            if peer_slots[0].read(1).is_some_and(|post| post.fault == 0) {
                // SAFETY: what is tested; loom reports an access that overlaps the other one.
                peer_memory.with(|memory| unsafe { assert_eq!(*memory, 0) });
            }
            peer_slots[1].set_done(1);
        });
        slots[0].withdraw(1, 8);
        while slots[1].has_posted(1) && !slots[1].is_done(1) {
            thread::yield_now();
        }
        // SAFETY: as above.
        memory.with_mut(|memory| unsafe { *memory = 1 });
        peer.join().unwrap();
    });
}
