//! Which holder serves whom where several ranks hold the same elements: a rule that every rank computes alike.
//!
//! A receiver takes from itself what it holds, then what ranks of its node hold, then the rest. Among ranks equally
//! near, the receivers take turns. Only the table decides, so sender and receiver agree.

use super::descriptor::Descriptor;
use crate::geometry::IndexBox;
use std::collections::HashMap;

/// The input boxes of all ranks, equal ones together.
pub(super) struct Holders {
    groups: Vec<Group>,
}

/// The ranks that hold one box.
struct Group {
    index_box: IndexBox,
    /// In rising order.
    ranks: Vec<usize>,
    /// (node, rank) of the same ranks, in rising order.
    by_node: Vec<(u64, usize)>,
}

/// How far the data has to come; the order is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Own,
    SameNode,
    OtherNode,
}

impl Holders {
    pub(super) fn new(table: &[Descriptor]) -> Holders {
        let mut groups: Vec<Group> = Vec::new();
        let mut known = HashMap::new();
        for descriptor in table {
            let index_box = *descriptor.request().input.index_box();
            let at = *known.entry(index_box).or_insert_with(|| {
                groups.push(Group { index_box, ranks: Vec::new(), by_node: Vec::new() });
                groups.len() - 1
            });
            groups[at].ranks.push(descriptor.rank);
            groups[at].by_node.push((descriptor.node, descriptor.rank));
        }
        groups.iter_mut().for_each(|group| group.by_node.sort_unstable());
        Holders { groups }
    }

    /// The parts of the receiver's output, each with the rank that supplies it. The parts are disjoint and hold
    /// every element that anyone holds.
    pub(super) fn choose(&self, table: &[Descriptor], receiver: usize) -> Vec<(usize, IndexBox)> {
        let output = table[receiver].request().output.index_box();
        let mut offers: Vec<(Distance, usize, IndexBox)> = self
            .groups
            .iter()
            .filter_map(|group| {
                let common = group.index_box.intersect(output)?;
                let (distance, holder) = group.nearest(table[receiver].node, receiver);
                Some((distance, holder, common))
            })
            .collect();
        // Where unequal boxes overlap, too, the receivers start with different ones.
        offers.sort_unstable_by_key(|&(distance, holder, _)| (distance, holder));
        for alike in offers.chunk_by_mut(|one, next| one.0 == next.0) {
            alike.rotate_left(turn(receiver, alike.len()));
        }
        let mut chosen = Vec::new();
        let (mut rest, mut next) = (vec![*output], Vec::new());
        for (_, holder, common) in offers {
            for part in rest.drain(..) {
                chosen.extend(part.intersect(&common).map(|taken| (holder, taken)));
                part.subtract_into(&common, &mut next);
            }
            std::mem::swap(&mut rest, &mut next);
            if rest.is_empty() {
                break;
            }
        }
        chosen
    }

    /// The parts that `holder` supplies to others, each with its receiver: the choices of all who may take some.
    pub(super) fn serve(&self, table: &[Descriptor], holder: usize) -> Vec<(usize, IndexBox)> {
        let own = table[holder].request().input.index_box();
        let mut served = Vec::new();
        for group in self.groups.iter().filter(|group| group.index_box == *own) {
            let receivers = table.iter().filter(|other| {
                other.rank != holder
                    && own.intersect(other.request().output.index_box()).is_some()
                    && group.nearest(other.node, other.rank).1 == holder
            });
            for receiver in receivers {
                let choice = self.choose(table, receiver.rank).into_iter();
                served.extend(choice.filter(|&(from, _)| from == holder).map(|(_, part)| (receiver.rank, part)));
            }
        }
        served
    }
}

impl Group {
    /// The holder that serves this receiver.
    fn nearest(&self, node: u64, receiver: usize) -> (Distance, usize) {
        if self.ranks.binary_search(&receiver).is_ok() {
            return (Distance::Own, receiver);
        }
        let first = self.by_node.partition_point(|&(other, _)| other < node);
        let last = self.by_node.partition_point(|&(other, _)| other <= node);
        match &self.by_node[first..last] {
            [] => (Distance::OtherNode, self.ranks[turn(receiver, self.ranks.len())]),
            near => (Distance::SameNode, near[turn(receiver, near.len())].1),
        }
    }
}

/// Whose turn it is among `count` holders: the digits of the receiver to the base `count`, added up. Even where
/// the receivers are neighbours, and also where they are every `count`-th rank, as along the axis of a mesh.
fn turn(receiver: usize, count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    let (mut sum, mut left) = (0, receiver);
    while left > 0 {
        sum += left % count;
        left /= count;
    }
    sum % count
}

#[cfg(test)]
mod tests {
    use super::super::samples::{
        agreed, check_schedules, line, random_table, table_between, table_of, with_nodes, with_options,
    };
    use super::super::{Options, Schedule};
    use super::*;

    fn replicated(table: Vec<Descriptor>) -> Vec<Descriptor> {
        with_options(table, Options { allow_replicas: true, ..Options::default() })
    }

    fn senders(table: &[Descriptor], receiver: usize) -> Vec<usize> {
        Holders::new(table).choose(table, receiver).iter().map(|(holder, _)| *holder).collect()
    }

    #[test]
    fn the_nearest_holder_is_taken() {
        // Ranks 0 and 2 hold everything, 1 the first half, 3 nothing; ranks 2 and 3 share a node.
        let all = (&[0][..], &[8][..]);
        let table = table_of(&[
            (all.0, all.1, &[0], &[8]),
            (&[0], &[4], &[0], &[8]),
            (all.0, all.1, &[0], &[0]),
            (&[0], &[0], &[2], &[8]),
        ]);
        let table = with_nodes(replicated(table), &[0, 1, 2, 2]);
        assert_eq!(senders(&table, 0), [0]);
        let halves = Holders::new(&table).choose(&table, 1);
        assert_eq!(halves[0], (1, line(0, 4)));
        assert_eq!(halves.len(), 2);
        assert_eq!(halves[1].1, line(4, 8));
        assert!(senders(&table, 2).is_empty());
        assert_eq!(senders(&table, 3), [2]);
        check_schedules(&table);
    }

    #[test]
    fn the_load_is_even() {
        for (holders, receivers, stride) in [(4, 8, 1), (3, 9, 1), (2, 8, 2), (2, 8, 4), (4, 16, 4), (8, 64, 8)] {
            let count = receivers * stride;
            let inputs: Vec<_> = (0..holders + count).map(|rank| line(0, if rank < holders { 8 } else { 0 })).collect();
            let receives = |rank: usize| rank >= holders && (rank - holders).is_multiple_of(stride);
            let outputs: Vec<_> =
                (0..holders + count).map(|rank| line(0, if receives(rank) { 8 } else { 0 })).collect();
            let nodes: Vec<u64> = (0..holders + count).map(|rank| u64::from(rank >= holders)).collect();
            let table = with_nodes(replicated(table_between(&inputs, &outputs)), &nodes);
            assert_eq!(agreed(&table), Ok(()));
            for holder in 0..holders {
                let sent = Schedule::build(&table, holder).info.peers_sent_to;
                assert!(
                    sent.abs_diff(receivers / holders) <= 1,
                    "{sent} of {receivers}, {holders} holders, every {stride}th rank"
                );
            }
        }
    }

    #[test]
    fn unequal_holders_share_the_load() {
        let inputs: Vec<IndexBox> =
            (0..8).map(|rank| if rank < 4 { line(rank, rank + 8) } else { line(0, 0) }).collect();
        let outputs: Vec<IndexBox> = (0..8).map(|rank| if rank < 4 { line(0, 0) } else { line(4, 8) }).collect();
        let table = replicated(table_between(&inputs, &outputs));
        let mut taken: Vec<usize> = (4..8).flat_map(|receiver| senders(&table, receiver)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3]);
        check_schedules(&table);
    }

    #[test]
    fn every_element_has_one_source_and_both_ends_agree() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..1500 {
            let options =
                Options { allow_replicas: true, allow_uncovered: true, in_place: random.bool(), ..Options::default() };
            let table = with_options(random_table(&mut random), options);
            let nodes: Vec<u64> = table.iter().map(|_| random.u64(0..3)).collect();
            check_schedules(&with_nodes(table, &nodes));
        }
    }

    #[test]
    fn own_elements_are_never_fetched() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..500 {
            let table = replicated(random_table(&mut random));
            for descriptor in &table {
                let own = descriptor.request().input.index_box();
                for (holder, part) in Holders::new(&table).choose(&table, descriptor.rank) {
                    assert!(holder == descriptor.rank || part.intersect(own).is_none());
                }
            }
        }
    }
}
