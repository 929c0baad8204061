//! What ranks tell each other through a boot table before they share anything: who they are and on which node.

use super::boot::Boot;
use super::socket::own_user;
use crate::config::NODE;
use crate::error::{Error, Result, Status};
use bytemuck::{Pod, Zeroable};

/// One rank's introduction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Introduction {
    /// Equal on ranks that can share memory, and on no others.
    node: [u8; NODE_BYTES],
    user: u64,
    /// The largest tag of its messages, 0 without messages.
    pub most_tag: u64,
    /// A name that nobody else can guess; that of the first rank of a node is used.
    token: [u8; 16],
}

const NODE_BYTES: usize = 128;

impl Introduction {
    /// Everybody's, by rank, or the same fault on all ranks.
    pub fn exchange(boot: &dyn Boot) -> Result<Vec<Introduction>> {
        // A rank that cannot introduce itself takes part all the same: the others are in the allgather.
        let own = Introduction::own(boot);
        let mine = own.clone().unwrap_or(Introduction::zeroed());
        let mut all = vec![Introduction::zeroed(); boot.size()];
        boot.allgather(bytemuck::bytes_of(&mine), bytemuck::cast_slice_mut(&mut all))?;
        if all[boot.rank()] != mine {
            return Err(Error::new(Status::Transport, "the boot table's allgather did not return what rank put in"));
        }
        own?;
        if let Some(silent) = all.iter().position(|other| *other == Introduction::zeroed()) {
            return Err(Error::new(Status::Transport, format!("rank {silent} cannot introduce itself")));
        }
        if let Some(other) = all.iter().position(|other| other.user != all[0].user) {
            return Err(Error::new(
                Status::Inconsistent,
                format!("ranks 0 and {other} run as users {} and {}", all[0].user, all[other].user),
            ));
        }
        Ok(all)
    }

    fn own(boot: &dyn Boot) -> Result<Introduction> {
        let (name, most_tag) = (boot.node(), boot.most_tag().unwrap_or(0));
        let mut mine = Introduction {
            user: own_user().into(),
            most_tag: most_tag.unsigned_abs().into(),
            ..Introduction::zeroed()
        };
        let path = "/proc/sys/kernel/random/boot_id";
        let kernel = std::fs::read_to_string(path).map_err(|error| Error::os(format!("cannot read {path}"), &error))?;
        // Sockets reach as far as the network's namespace, process numbers as far as theirs.
        let namespace = |kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        let (net, pid) = (namespace("net"), namespace("pid"));
        let node = format!("{name} {} {} {}", kernel.trim(), net.display(), pid.display());
        if node.len() > NODE_BYTES {
            return Err(Error::invalid_argument(format!(
                "the name of the node, {name:?}, is too long ({})",
                NODE.name
            )));
        }
        mine.node[..node.len()].copy_from_slice(node.as_bytes());
        // SAFETY: the buffer is as long as said.
        if unsafe { libc::getrandom(mine.token.as_mut_ptr().cast(), mine.token.len(), 0) } != 16 {
            return Err(Error::os("no random bytes", &std::io::Error::last_os_error()));
        }
        Ok(mine)
    }

    /// Whether the two ranks can share memory.
    pub fn is_same_node(&self, other: &Introduction) -> bool {
        self.node == other.node
    }

    /// The token as text.
    pub fn token(&self) -> String {
        format!("{:032x}", u128::from_ne_bytes(self.token))
    }
}
