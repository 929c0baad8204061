//! The slow, obvious redistribution: for every element of an output, find who holds it and copy its bytes.

use super::side::Side;

/// What one rank holds: its box, the bytes of its memory, and where in them the data pointer points.
pub struct Held<'a> {
    pub side: &'a Side,
    pub bytes: &'a [u8],
    pub origin: usize,
}

/// Writes into `bytes`, whose data pointer is at `origin`, what `output` must hold. Elements that nobody holds
/// stay as they are. Returns the number of elements written.
pub fn redistribute(held: &[Held], output: &Side, element_size: usize, bytes: &mut [u8], origin: usize) -> u64 {
    let mut written = 0;
    output.for_each(|point, place| {
        let Some(holder) = held.iter().find(|holder| holder.side.contains(point)) else { return };
        let from = byte_at(holder.origin, holder.side.place(point), element_size);
        let to = byte_at(origin, place, element_size);
        bytes[to..to + element_size].copy_from_slice(&holder.bytes[from..from + element_size]);
        written += 1;
    });
    written
}

/// The first byte of the element at `place` when the data pointer is at `origin`.
pub fn byte_at(origin: usize, place: i64, element_size: usize) -> usize {
    (origin as i64 + place * element_size as i64) as usize
}

/// The ranks whose own boxes break the rules: an input element that another rank holds too, an output element
/// that nobody holds. Lowest first.
pub fn guilty_ranks(inputs: &[Side], outputs: &[Side], allow_replicas: bool, allow_uncovered: bool) -> Vec<usize> {
    let holders = |point: &[i64]| inputs.iter().filter(|side| side.contains(point)).count();
    let any = |side: &Side, wrong: &dyn Fn(usize) -> bool| {
        let mut found = false;
        side.for_each(|point, _| found |= wrong(holders(point)));
        found
    };
    (0..inputs.len())
        .filter(|&rank| {
            (!allow_replicas && any(&inputs[rank], &|count| count > 1))
                || (!allow_uncovered && any(&outputs[rank], &|count| count == 0))
        })
        .collect()
}
