//! Tables of descriptors for the tests of this room, and the slow, obvious oracles they are judged by.

use super::{Descriptor, Options, Request, Schedule, Transfer, check_own, check_table};
use crate::error::Result;
use crate::error::{agree, encode_verdict};
use crate::geometry::{IndexBox, Placement};
use std::collections::HashMap;

/// The box `[lower, upper)` of one dimension.
pub fn line(lower: i64, upper: i64) -> IndexBox {
    IndexBox::new(&[lower], &[upper]).unwrap()
}

/// Lower and upper of the input, then of the output.
pub type Bounds<'a> = (&'a [i64], &'a [i64], &'a [i64], &'a [i64]);

/// Packed boxes of 8-byte elements on one node.
pub fn table_of(bounds: &[Bounds<'_>]) -> Vec<Descriptor> {
    let boxed = |lower, upper| IndexBox::new(lower, upper).unwrap();
    let (inputs, outputs): (Vec<_>, Vec<_>) = bounds.iter().map(|b| (boxed(b.0, b.1), boxed(b.2, b.3))).unzip();
    table_between(&inputs, &outputs)
}

/// The same from lists of boxes.
pub fn table_between(inputs: &[IndexBox], outputs: &[IndexBox]) -> Vec<Descriptor> {
    table_sized(inputs, outputs, 8)
}

/// The same with elements of any size.
pub fn table_sized(inputs: &[IndexBox], outputs: &[IndexBox], element_size: usize) -> Vec<Descriptor> {
    let packed = |index_box: &IndexBox| Placement::output(*index_box, None, element_size).unwrap();
    assert_eq!(inputs.len(), outputs.len());
    let requests = inputs.iter().zip(outputs).map(|(i, o)| Request::new(packed(i), packed(o)));
    let sound = |(rank, description)| Descriptor { rank, node: 0, description, options: Options::default() };
    requests.enumerate().map(sound).collect()
}

/// The same table with these options on all ranks.
pub fn with_options(mut table: Vec<Descriptor>, options: Options) -> Vec<Descriptor> {
    table.iter_mut().for_each(|descriptor| descriptor.options = options);
    table
}

/// The same table with the ranks on these nodes.
pub fn with_nodes(mut table: Vec<Descriptor>, nodes: &[u64]) -> Vec<Descriptor> {
    table.iter_mut().zip(nodes).for_each(|(descriptor, node)| descriptor.node = *node);
    table
}

/// Part `index` of `0..extent` in `parts` parts whose sizes differ by one at most, the longer ones first.
pub fn even_part(extent: i64, parts: usize, index: usize) -> (i64, i64) {
    let (short, longer) = (extent / parts as i64, extent % parts as i64);
    let start = |i: i64| i * short + i.min(longer);
    (start(index as i64), start(index as i64 + 1))
}

/// The boxes of a row-major grid of ranks; dimension `d` of the array is cut into `parts[d]`.
pub fn grid(shape: &[i64], parts: &[usize]) -> Vec<IndexBox> {
    let ranks: usize = parts.iter().product();
    let cut = |mut rank: usize| {
        let (mut lower, mut upper) = (vec![0; shape.len()], vec![0; shape.len()]);
        for d in (0..shape.len()).rev() {
            (lower[d], upper[d]) = even_part(shape[d], parts[d], rank % parts[d]);
            rank /= parts[d];
        }
        IndexBox::new(&lower, &upper).unwrap()
    };
    (0..ranks).map(cut).collect()
}

/// What `make` concludes from the table on every rank.
pub fn agreed(table: &[Descriptor]) -> Result<()> {
    check_table(table)?;
    let verdicts: Vec<u8> = (0..table.len()).flat_map(|rank| encode_verdict(&check_own(table, rank))).collect();
    agree(&verdicts)
}

/// A few ranks with small boxes near the origin, in random layouts; often sound, often with an overlap or a hole.
pub fn random_table(random: &mut fastrand::Rng) -> Vec<Descriptor> {
    let (ndims, ranks) = (random.usize(1..=3), random.usize(1..=5));
    let whole = random_box(random, ndims, 4);
    // Cut the whole into a part per rank, then at times shift, drop or repeat one.
    let mut inputs = vec![whole];
    while inputs.len() < ranks {
        let part = inputs.swap_remove(random.usize(..inputs.len()));
        let d = random.usize(..ndims);
        let at = random.i64(part.lower()[d]..=part.upper()[d]);
        let (mut middle_upper, mut middle_lower) = (part.upper().to_vec(), part.lower().to_vec());
        (middle_upper[d], middle_lower[d]) = (at, at);
        inputs.push(IndexBox::new(part.lower(), &middle_upper).unwrap());
        inputs.push(IndexBox::new(&middle_lower, part.upper()).unwrap());
    }
    random.shuffle(&mut inputs);
    match random.usize(..4) {
        0 => inputs[random.usize(..ranks)] = random_box(random, ndims, 4),
        1 => inputs[random.usize(..ranks)] = inputs[random.usize(..ranks)],
        _ => {}
    }
    let element_size = [1, 8, 12][random.usize(..3)];
    let describe = |(rank, input): (usize, IndexBox)| {
        let wish = random_box(random, ndims, 4);
        let output = match random.usize(..4) {
            0 => wish,
            _ => wish.intersect(&whole).unwrap_or_else(|| IndexBox::new(wish.lower(), wish.lower()).unwrap()),
        };
        let strides = random_strides(random, &input);
        let input = Placement::input(input, Some(&strides), element_size).unwrap();
        let strides = random_strides(random, &output);
        let output = Placement::output(output, Some(&strides), element_size).unwrap();
        Descriptor { rank, node: 0, description: Request::new(input, output), options: Options::default() }
    };
    inputs.into_iter().enumerate().map(describe).collect()
}

fn random_box(random: &mut fastrand::Rng, ndims: usize, most: i64) -> IndexBox {
    let lower: Vec<i64> = (0..ndims).map(|_| random.i64(-3..=2)).collect();
    let upper: Vec<i64> = lower.iter().map(|l| l + random.i64(0..=most)).collect();
    IndexBox::new(&lower, &upper).unwrap()
}

fn random_strides(random: &mut fastrand::Rng, index_box: &IndexBox) -> Vec<i64> {
    let mut order: Vec<usize> = (0..index_box.ndims()).collect();
    random.shuffle(&mut order);
    let mut strides = vec![0; index_box.ndims()];
    let mut next = 1;
    for d in order {
        strides[d] = if random.u8(..4) == 0 { -next } else { next };
        next *= index_box.extent(d).max(1) + random.i64(0..=1);
    }
    strides
}

/// Every element of a box.
pub fn points(index_box: &IndexBox) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for d in 0..index_box.ndims() {
        let range = index_box.lower()[d]..index_box.upper()[d];
        all = all.iter().flat_map(|p| range.clone().map(move |x| [&p[..], &[x]].concat())).collect();
    }
    all
}

/// Who holds what, element by element.
pub struct Oracle {
    holders: HashMap<Vec<i64>, Vec<usize>>,
    /// Some element has several holders.
    pub overlap: bool,
    /// Some element is wanted but not held.
    pub hole: bool,
}

impl Oracle {
    pub fn new(table: &[Descriptor]) -> Oracle {
        let mut holders: HashMap<Vec<i64>, Vec<usize>> = HashMap::new();
        for descriptor in table {
            for point in points(descriptor.request().input.index_box()) {
                holders.entry(point).or_default().push(descriptor.rank);
            }
        }
        let overlap = holders.values().any(|ranks| ranks.len() > 1);
        let mut oracle = Oracle { holders, overlap, hole: false };
        oracle.hole = table.iter().any(|descriptor| oracle.wants_too_much(descriptor));
        oracle
    }

    fn wants_too_much(&self, descriptor: &Descriptor) -> bool {
        points(descriptor.request().output.index_box()).iter().any(|point| !self.holders.contains_key(point))
    }

    /// Whether this rank breaks a rule that its options do not relax.
    pub fn guilty(&self, table: &[Descriptor], rank: usize) -> bool {
        let options = &table[rank].options;
        let overlaps = self.holders.values().any(|ranks| ranks.len() > 1 && ranks.contains(&rank));
        (!options.allow_replicas && overlaps) || (!options.allow_uncovered && self.wants_too_much(&table[rank]))
    }
}

/// All schedules of a sound table: every element of every output that is held comes from exactly one rank that
/// holds it, from its place to its place; both ends of a pair have the same list; the figures add up.
pub fn check_schedules(table: &[Descriptor]) -> Vec<Schedule> {
    let schedules: Vec<Schedule> = (0..table.len()).map(|rank| Schedule::build(table, rank)).collect();
    let oracle = Oracle::new(table);
    for schedule in &schedules {
        let receiver = schedule.rank;
        let mut arrived: HashMap<Vec<i64>, usize> = HashMap::new();
        for (sender, transfer) in incoming(schedule) {
            for point in check_transfer(table, sender, receiver, transfer) {
                assert!(oracle.holders[&point].contains(&sender), "{sender} does not hold {point:?}");
                *arrived.entry(point).or_default() += 1;
            }
        }
        for point in points(schedule.request.output.index_box()) {
            let times = usize::from(oracle.holders.contains_key(&point));
            assert_eq!(arrived.remove(&point).unwrap_or(0), times, "{point:?} on rank {receiver}");
        }
        assert!(arrived.is_empty(), "rank {receiver} receives what it does not want: {arrived:?}");

        let order: Vec<usize> =
            schedule.peers.iter().map(|peer| (peer.rank + table.len() - receiver) % table.len()).collect();
        assert!(order.iter().all(|distance| *distance > 0) && order.is_sorted_by(|a, b| a < b), "{order:?}");
        for peer in &schedule.peers {
            assert!(!peer.receive.is_empty() || !peer.send.is_empty());
            let other_end = schedules[peer.rank].peers.iter().find(|other| other.rank == receiver).unwrap();
            assert_eq!((&peer.receive, &peer.send), (&other_end.send, &other_end.receive));
        }
        let sum = |select: fn(&super::PeerTransfers) -> &[Transfer]| {
            schedule.peers.iter().flat_map(select).map(Transfer::bytes).sum::<u64>()
        };
        assert_eq!(schedule.info.bytes_kept, schedule.keep.iter().map(Transfer::bytes).sum::<u64>());
        assert_eq!(schedule.info.bytes_received, sum(|peer| &peer.receive));
        assert_eq!(schedule.info.bytes_sent, sum(|peer| &peer.send));
    }
    schedules
}

fn incoming(schedule: &Schedule) -> impl Iterator<Item = (usize, &Transfer)> {
    let kept = schedule.keep.iter().map(|transfer| (schedule.rank, transfer));
    kept.chain(schedule.peers.iter().flat_map(|peer| peer.receive.iter().map(|transfer| (peer.rank, transfer))))
}

/// The elements of a transfer, after a look at every byte of its nest.
fn check_transfer(table: &[Descriptor], sender: usize, receiver: usize, transfer: &Transfer) -> Vec<Vec<i64>> {
    let (from, to) = (table[sender].request(), table[receiver].request());
    let source = if table[sender].options.in_place { from.input.packed_alike() } else { from.input };
    let moved = points(&transfer.index_box);
    let mut bytes = HashMap::new();
    transfer.nest.for_each_run(|src, dst| {
        bytes.extend((0..transfer.nest.run_bytes as isize).map(|byte| (dst + byte, src + byte)));
    });
    assert_eq!(bytes.len(), moved.len() * source.element_size());
    for point in &moved {
        let (src, dst) = (source.offset_bytes(point), to.output.offset_bytes(point));
        (0..source.element_size() as isize).for_each(|byte| assert_eq!(bytes[&(dst + byte)], src + byte));
    }
    moved
}

/// Runs all schedules on real memory; no placement reaches before its data pointer.
pub fn execute(table: &[Descriptor], inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let run = |nest: &crate::geometry::LoopNest, source: &[u8], target: &mut [u8]| {
        nest.for_each_run(|src, dst| {
            target[dst as usize..][..nest.run_bytes].copy_from_slice(&source[src as usize..][..nest.run_bytes]);
        });
    };
    let schedules: Vec<Schedule> = (0..table.len()).map(|rank| Schedule::build(table, rank)).collect();
    let stage = |schedule: &Schedule| {
        let mut workspace = vec![0xee; schedule.workspace_bytes];
        match &schedule.staging {
            Some(nest) => run(nest, &inputs[schedule.rank], &mut workspace),
            None => workspace = inputs[schedule.rank].clone(),
        }
        workspace
    };
    let sources: Vec<Vec<u8>> = schedules.iter().map(stage).collect();
    let receive = |schedule: &Schedule| {
        let mut output = vec![0xee; schedule.request.output.byte_range().end as usize];
        incoming(schedule).for_each(|(sender, transfer)| run(&transfer.nest, &sources[sender], &mut output));
        output
    };
    schedules.iter().map(receive).collect()
}

/// The memory of a placement of 8-byte elements where each element of the array `shape` holds its row-major
/// number; padding is 0xee.
pub fn numbered(placement: &Placement, shape: &[i64]) -> Vec<u8> {
    let mut memory = vec![0xee; placement.byte_range().end as usize];
    for point in points(placement.index_box()) {
        let number = point.iter().zip(shape).fold(0, |number, (x, extent)| number * extent + x);
        memory[placement.offset_bytes(&point) as usize..][..8].copy_from_slice(&number.to_ne_bytes());
    }
    memory
}

/// The table is sound, and from numbered inputs every rank gets exactly its numbered output.
pub fn check_exact(table: &[Descriptor], shape: &[i64]) {
    assert_eq!(agreed(table), Ok(()));
    check_schedules(table);
    let inputs: Vec<_> = table.iter().map(|d| numbered(&d.request().input, shape)).collect();
    let expected: Vec<_> = table.iter().map(|d| numbered(&d.request().output, shape)).collect();
    assert_eq!(execute(table, &inputs), expected);
}
