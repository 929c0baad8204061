//! Tells kernels that wait for a rank that it is lost: they look at words of the host, which a thread keeps up to date.
//!
//! Word 0: the communicator is out of use. Word 1 + r: rank r has gone. A rank that has gone is missed by those only who
//! wait for it, as on the host.

use super::driver::HostWords;
use crate::transport::communicator::Inner;
use std::sync::{Arc, Weak};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(10);

/// Looks after a communicator until it, or the words, are gone.
pub fn watch(communicator: Weak<Inner>, words: Weak<HostWords>) -> std::io::Result<()> {
    let look = move || {
        while let (Some(inner), Some(words)) = (communicator.upgrade(), words.upgrade()) {
            look_once(&inner, &words);
            drop((inner, words));
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("boxwise-watch".into()).spawn(look).map(drop)
}

fn look_once(inner: &Arc<Inner>, words: &Arc<HostWords>) {
    if inner.node.control.broken().is_some() {
        words.store(0, 1);
    }
    let others = (0..inner.node.ranks.len()).filter(|&member| member != inner.node.member);
    for member in others.filter(|&member| inner.node.is_lost(member).is_some()) {
        words.store(1 + inner.node.ranks[member], 1);
    }
}
