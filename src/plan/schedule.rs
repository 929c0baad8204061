//! One rank's list of strided copies: what it keeps, and what it exchanges with which peer, in which order.

use super::descriptor::{Descriptor, Request};
use super::info::Info;
use super::options::Options;
use super::replicas::Holders;
use crate::geometry::{IndexBox, LoopNest};

/// Some elements on their way from one rank's input to one rank's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which elements; never empty.
    pub index_box: IndexBox,
    /// The copy from the sender's source pointer (its input; in place its workspace) to the receiver's output.
    pub nest: LoopNest,
}

/// What a rank exchanges with one other rank. Both ends hold equal lists in equal order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTransfers {
    /// The other rank.
    pub rank: usize,
    /// What it sends to this rank.
    pub receive: Vec<Transfer>,
    /// What this rank sends to it.
    pub send: Vec<Transfer>,
}

/// Everything one rank has to do in an execution.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// This rank.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// What this rank holds and wants.
    pub request: Request,
    /// What goes from the own input to the own output.
    pub keep: Vec<Transfer>,
    /// The ranks with which there is something to exchange, in the order rank + 1, rank + 2, ... round all ranks,
    /// so that nobody is everybody's first.
    pub peers: Vec<PeerTransfers>,
    /// Bytes of workspace: those of the own input in place, else 0; or what the backend says instead.
    pub workspace_bytes: usize,
    /// In place, with an input that is not empty: the copy from the input to the workspace, packed, that comes
    /// before everything else. On all ranks the source of every transfer is then that packed copy.
    pub staging: Option<LoopNest>,
    /// The figures of this schedule.
    pub info: Info,
    /// The options, equal on all ranks.
    pub options: Options,
}

impl Schedule {
    /// The schedule of `rank`, from a table that `check_table` and every rank's `check_own` found sound. Without
    /// replicas it takes time and memory in proportion to the number of ranks.
    pub fn build(table: &[Descriptor], rank: usize) -> Schedule {
        let options = table[rank].options;
        let request = *table[rank].request();
        let (mut incoming, mut outgoing) = match options.allow_replicas {
            false => moves(table, rank),
            true => moves_with_replicas(table, rank),
        };
        let distance = |peer: usize| (peer + table.len() - rank) % table.len();
        // Stable: the parts for one peer stay in the order that both ends know.
        incoming.sort_by_key(|&(sender, _)| distance(sender));
        outgoing.sort_by_key(|&(receiver, _)| distance(receiver));

        let receive = |&(sender, index_box): &Move| Transfer::new(index_box, &table[sender], &request);
        let send = |&(receiver, index_box): &Move| Transfer::new(index_box, &table[rank], table[receiver].request());
        let (kept, mut incoming) = incoming.split_at(incoming.partition_point(|&(sender, _)| sender == rank));
        let mut outgoing = &outgoing[..];
        let mut peers = Vec::new();
        while let Some(peer) =
            [incoming, outgoing].iter().filter_map(|moves| Some(moves.first()?.0)).min_by_key(|&peer| distance(peer))
        {
            let (received, sent) = (take_peer(&mut incoming, peer), take_peer(&mut outgoing, peer));
            peers.push(PeerTransfers {
                rank: peer,
                receive: received.iter().map(receive).collect(),
                send: sent.iter().map(send).collect(),
            });
        }

        let keep: Vec<Transfer> = kept.iter().map(receive).collect();
        let input = &request.input;
        let staged = options.in_place && !input.index_box().is_empty();
        let workspace_bytes = if staged { input.bytes() } else { 0 };
        Schedule {
            rank,
            size: table.len(),
            request,
            workspace_bytes,
            staging: staged.then(|| LoopNest::between(input.index_box(), input, &input.packed_alike())),
            info: Info::new(rank, table.len(), &request, &keep, &peers, workspace_bytes),
            keep,
            peers,
            options,
        }
    }

    /// For a backend that needs more workspace than the plan alone.
    pub fn set_workspace_bytes(&mut self, bytes: usize) {
        self.workspace_bytes = bytes;
        self.info.workspace_bytes = bytes as u64;
    }
}

impl Transfer {
    fn new(index_box: IndexBox, sender: &Descriptor, receiver: &Request) -> Transfer {
        let input = &sender.request().input;
        let nest = match sender.options.in_place {
            false => LoopNest::between(&index_box, input, &receiver.output),
            true => LoopNest::between(&index_box, &input.packed_alike(), &receiver.output),
        };
        Transfer { index_box, nest }
    }

    /// The bytes it moves.
    pub fn bytes(&self) -> u64 {
        self.nest.bytes() as u64
    }
}

/// Elements that come from, or go to, a rank.
type Move = (usize, IndexBox);

/// What comes in, also from the rank itself, and what goes out to others; every element has one holder.
fn moves(table: &[Descriptor], rank: usize) -> (Vec<Move>, Vec<Move>) {
    let own = table[rank].request();
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    let (before, from_rank) = table.split_at(rank);
    for other in from_rank.iter().chain(before) {
        let request = other.request();
        let wanted = own.output.index_box().intersect(request.input.index_box());
        incoming.extend(wanted.map(|common| (other.rank, common)));
        if other.rank != rank {
            let offered = own.input.index_box().intersect(request.output.index_box());
            outgoing.extend(offered.map(|common| (other.rank, common)));
        }
    }
    (incoming, outgoing)
}

/// The same where an element can have several holders.
fn moves_with_replicas(table: &[Descriptor], rank: usize) -> (Vec<Move>, Vec<Move>) {
    let holders = Holders::new(table);
    (holders.choose(table, rank), holders.serve(table, rank))
}

/// Takes the moves of `peer` off the front of a list in which those of one rank lie together.
fn take_peer<'a>(moves: &mut &'a [Move], peer: usize) -> &'a [Move] {
    let count = moves.iter().take_while(|&&(other, _)| other == peer).count();
    let (taken, left) = moves.split_at(count);
    *moves = left;
    taken
}

#[cfg(test)]
mod tests {
    use super::super::samples::{agreed, check_schedules, line, random_table, table_between, table_of, with_options};
    use super::*;

    #[test]
    fn transfers_are_told_from_both_ends() {
        // Rows to columns of 4 x 6 on 2 ranks.
        let table = table_of(&[(&[0, 0], &[2, 6], &[0, 0], &[4, 3]), (&[2, 0], &[4, 6], &[0, 3], &[4, 6])]);
        let schedule = Schedule::build(&table, 0);
        assert_eq!(schedule.keep.len(), 1);
        assert_eq!(schedule.keep[0].index_box, IndexBox::new(&[0, 0], &[2, 3]).unwrap());
        let [peer] = &schedule.peers[..] else { panic!("{schedule:?}") };
        assert_eq!((peer.rank, peer.receive.len(), peer.send.len()), (1, 1, 1));
        let nest = &peer.receive[0].nest;
        assert_eq!((nest.run_bytes, nest.extents[0], nest.src_start, nest.dst_start), (24, 2, 0, 48));
        assert_eq!((nest.src_strides[0], nest.dst_strides[0]), (48, 24));
        assert_eq!(peer.send[0].index_box, IndexBox::new(&[0, 3], &[2, 6]).unwrap());
        assert_eq!(schedule.workspace_bytes, 0);
        assert_eq!(schedule.staging, None);
        let info = schedule.info;
        assert_eq!((info.bytes_kept, info.bytes_sent, info.bytes_received, info.copies), (48, 48, 48, 2));
        check_schedules(&table);
    }

    #[test]
    fn in_place_everything_comes_from_the_packed_copy() {
        let mut table = table_of(&[(&[0, 0], &[2, 6], &[0, 0], &[4, 3]), (&[2, 0], &[4, 6], &[0, 3], &[4, 6])]);
        for descriptor in &mut table {
            let request = descriptor.description.as_mut().unwrap();
            let index_box = *request.input.index_box();
            // First dimension fastest, padded from 2 to 5.
            request.input = crate::geometry::Placement::input(index_box, Some(&[1, 5]), 8).unwrap();
        }
        let table = with_options(table, Options { in_place: true, ..Options::default() });
        let schedule = Schedule::build(&table, 1);
        assert_eq!(schedule.workspace_bytes, 96);
        assert_eq!(schedule.info.workspace_bytes, 96);
        let staging = schedule.staging.unwrap();
        assert_eq!(
            (staging.bytes(), staging.run_bytes, staging.src_strides[0], staging.dst_strides[0]),
            (96, 16, 40, 16)
        );
        let nest = &schedule.peers[0].receive[0].nest;
        assert!(nest.src_strides[..2].contains(&8) && nest.src_strides[..2].contains(&16), "{nest:?}");
        check_schedules(&table);

        let nothing = table_of(&[(&[0], &[0], &[0], &[0])]);
        let schedule = Schedule::build(&with_options(nothing, Options { in_place: true, ..Options::default() }), 0);
        assert_eq!((schedule.workspace_bytes, schedule.staging), (0, None));
    }

    #[test]
    fn peers_come_in_cyclic_order() {
        let rows: Vec<IndexBox> = (0..5).map(|rank| line(rank, rank + 1)).collect();
        let wishes: Vec<IndexBox> = (0..5).map(|rank| line(0, if rank == 3 { 0 } else { 5 })).collect();
        let table = table_between(&rows, &wishes);
        assert_eq!(agreed(&table), Ok(()));
        let order = |rank| Schedule::build(&table, rank).peers.iter().map(|p| p.rank).collect::<Vec<_>>();
        assert_eq!(order(0), [1, 2, 3, 4]);
        assert_eq!(order(2), [3, 4, 0, 1]);
        assert_eq!(order(3), [4, 0, 1, 2]);
        check_schedules(&table);
    }

    #[test]
    fn sums_of_bytes_do_not_overflow() {
        let wide = IndexBox::new(&[0], &[i64::MAX / 8]).unwrap();
        let none = IndexBox::new(&[0], &[0]).unwrap();
        let info = Schedule::build(&table_between(&[wide, none, none, none, none], &[wide; 5]), 0).info;
        assert_eq!(info.bytes_sent, u64::MAX);
        assert_eq!(info.bytes_kept, (i64::MAX / 8 * 8) as u64);
    }

    #[test]
    fn every_element_has_one_source_and_both_ends_agree() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut sound = 0;
        for round in 0..6000 {
            let options = Options { in_place: round % 3 == 0, allow_uncovered: true, ..Options::default() };
            let table = with_options(random_table(&mut random), options);
            if agreed(&table).is_ok() {
                sound += 1;
                check_schedules(&table);
            }
        }
        assert!(sound > 500, "{sound}");
    }
}
