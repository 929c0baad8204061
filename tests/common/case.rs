//! A random reshape: every rank's boxes and layouts, the options and the contents, all from one seed.

use super::shapes::{self, Bounds, Use, once_in};
use super::side::Side;
use super::{mix, oracle, scribble};
use boxwise::plan::{Backend, ExitSync, Options};
use fastrand::Rng;

/// A reshape that all ranks derive alike from the seed and the number of ranks.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub ranks: usize,
    pub element_size: usize,
    pub inputs: Vec<Side>,
    pub outputs: Vec<Side>,
    pub options: Options,
    /// How often buffers are prepared, and how many executions each time.
    pub rounds: usize,
    pub execs_per_round: usize,
    /// Whether every rank takes fresh shared memory for this case.
    pub fresh_memory: bool,
}

/// What a rank's input memory must hold, from its first to its last place.
pub struct Image {
    pub bytes: Vec<u8>,
    /// Where in `bytes` the data pointer points.
    pub origin: usize,
}

const COMMON_SIZES: [usize; 9] = [1, 2, 3, 4, 8, 12, 16, 24, 64];
const ODD_SIZES: [usize; 9] = [5, 6, 7, 20, 33, 48, 100, 128, 1000];
/// Long enough for cross-memory attach, and to fill pieces of rings.
const LONG_SIZES: [usize; 5] = [4096, 5000, 16384, 65535, 65536];

/// The most bytes that one side of a case spans: ordinary, of long elements, large.
const ORDINARY_BYTES: usize = 192 << 10;
const LONG_BYTES: usize = 1 << 20;
const LARGE_BYTES: usize = 3 << 20;
/// What an interpreter can move in a moment.
const SMALL_BYTES: usize = 24 << 10;

impl Case {
    pub fn new(seed: u64, ranks: usize) -> Case {
        Case::of_size(seed, ranks, false)
    }

    /// One of at most [`SMALL_BYTES`] on each side, with elements of at most 64 bytes.
    pub fn small(seed: u64, ranks: usize) -> Case {
        Case::of_size(seed, ranks, true)
    }

    fn of_size(seed: u64, ranks: usize, small: bool) -> Case {
        let mut random = Rng::with_seed(mix(&[seed, ranks as u64]));
        let random = &mut random;
        let large = once_in(random, 60) && !small;
        let (element_size, most_bytes) = match random.usize(0..12) {
            0..3 if small => (random.usize(1..=64), SMALL_BYTES),
            _ if small => (COMMON_SIZES[random.usize(0..COMMON_SIZES.len())], SMALL_BYTES),
            _ if large => (COMMON_SIZES[random.usize(6..9)], LARGE_BYTES),
            0 => (ODD_SIZES[random.usize(0..ODD_SIZES.len())], ORDINARY_BYTES),
            1 => (LONG_SIZES[random.usize(0..LONG_SIZES.len())], LONG_BYTES),
            _ => (COMMON_SIZES[random.usize(0..COMMON_SIZES.len())], ORDINARY_BYTES),
        };
        let most_places = (most_bytes / element_size).max(8) as i64;
        let most_volume = if large { most_places / 2 } else { (most_places / 3).min(4000) };
        let volume = (most_volume as f64).powf(if large { 1.0 } else { random.f64().sqrt() }) as i64;
        let ndims = random.usize(1..=8);
        let wholes: Vec<Bounds> = (0..if large { 5 } else { 1 })
            .map(|_| shapes::global_box(random, if large { 1 + ndims / 2 } else { ndims }, volume.max(1)))
            .collect();
        let whole = wholes.iter().max_by_key(|whole| shapes::volume(whole)).expect("at least one");

        let (inputs, replicated) = input_boxes(random, whole, ranks);
        let (outputs, reaching_out) = output_boxes(random, whole, &inputs, ranks);
        let options = options(random, replicated, reaching_out);
        // Holders of equal elements hold equal bytes only if each element has a place of its own.
        let places = if replicated { Use::Distinct } else { Use::Shared };
        let inputs = inputs.into_iter().map(|b| shapes::layout(random, b, places, most_places)).collect();
        let outputs = outputs.into_iter().map(|b| shapes::layout(random, b, Use::Distinct, most_places)).collect();
        let (rounds, execs_per_round) = if large { (1, 1) } else { (random.usize(1..=3), random.usize(1..=4)) };
        let fresh_memory = once_in(random, 40);
        Case { seed, ranks, element_size, inputs, outputs, options, rounds, execs_per_round, fresh_memory }
    }

    /// The ranks whose boxes break the rules that the options leave standing.
    pub fn guilty_ranks(&self) -> Vec<usize> {
        let Options { allow_replicas, allow_uncovered, .. } = self.options;
        oracle::guilty_ranks(&self.inputs, &self.outputs, allow_replicas, allow_uncovered)
    }

    /// The memory of `rank`'s input at execution `exec`. An element's bytes depend on nothing but its index, the
    /// seed and `exec`; where elements share a place the last one stands.
    pub fn input_image(&self, rank: usize, exec: usize) -> Image {
        let side = &self.inputs[rank];
        let (first, _) = side.reach();
        let origin = (-first) as usize * self.element_size;
        let mut bytes = vec![0; side.span_bytes(self.element_size)];
        scribble(&mut bytes, mix(&[self.seed, exec as u64, rank as u64, 1]));
        side.for_each(|point, place| {
            let at = oracle::byte_at(origin, place, self.element_size);
            let index = point.iter().fold(mix(&[self.seed, exec as u64]), |key, &g| mix(&[key, g as u64]));
            scribble(&mut bytes[at..at + self.element_size], index);
        });
        Image { bytes, origin }
    }

    /// Writes into `bytes`, with the data pointer at `origin`, what `rank`'s output must be after execution
    /// `exec`. Returns the number of elements written.
    pub fn redistribute(&self, rank: usize, exec: usize, bytes: &mut [u8], origin: usize) -> u64 {
        let images: Vec<Image> = (0..self.ranks).map(|rank| self.input_image(rank, exec)).collect();
        let held: Vec<oracle::Held> = images
            .iter()
            .zip(&self.inputs)
            .map(|(image, side)| oracle::Held { side, bytes: &image.bytes, origin: image.origin })
            .collect();
        oracle::redistribute(&held, &self.outputs[rank], self.element_size, bytes, origin)
    }
}

/// Boxes of the inputs, and whether some elements are held twice.
fn input_boxes(random: &mut Rng, whole: &Bounds, ranks: usize) -> (Vec<Bounds>, bool) {
    let holders = if once_in(random, 5) { random.usize(1..=ranks) } else { ranks };
    let mut boxes = shapes::split(random, whole, holders);
    let empty = (whole.0.clone(), whole.0.clone());
    boxes.resize(ranks, empty.clone());
    random.shuffle(&mut boxes);
    let mut replicated = false;
    match random.usize(0..20) {
        0 | 1 => {
            let most = random.i64(0..=3);
            boxes = boxes.iter().map(|b| shapes::grown(random, b, whole, most)).collect();
            replicated = true;
        }
        2 => {
            boxes.fill(whole.clone());
            replicated = true;
        }
        3 => boxes[random.usize(0..ranks)] = empty,
        4 => {
            // A hole, and perhaps an overlap of the same volume.
            let (from, to) = (random.usize(0..ranks), random.usize(0..ranks));
            boxes[to] = boxes[from].clone();
            replicated = true;
        }
        _ => {}
    }
    (boxes, replicated)
}

/// Boxes of the outputs, and whether some may want what nobody holds.
fn output_boxes(random: &mut Rng, whole: &Bounds, inputs: &[Bounds], ranks: usize) -> (Vec<Bounds>, bool) {
    let boxes = match random.usize(0..20) {
        0..8 => shapes::split(random, whole, ranks),
        8..11 => {
            let most = random.i64(0..=2);
            shapes::split(random, whole, ranks).iter().map(|b| shapes::grown(random, b, whole, most)).collect()
        }
        11 => vec![whole.clone(); ranks],
        12..16 => (0..ranks).map(|_| shapes::sub_box(random, whole)).collect(),
        16 => inputs.to_vec(),
        17 => (0..ranks).map(|rank| inputs[(rank + 1) % ranks].clone()).collect(),
        _ => {
            let mut wider = whole.clone();
            for d in 0..whole.0.len() {
                wider.0[d] = wider.0[d].saturating_sub(random.i64(0..=1));
                wider.1[d] = wider.1[d].saturating_add(random.i64(0..=1));
            }
            return (shapes::split(random, &wider, ranks), true);
        }
    };
    (boxes, false)
}

fn options(random: &mut Rng, replicated: bool, reaching_out: bool) -> Options {
    Options {
        backend: if random.bool() { Backend::Auto } else { Backend::Host },
        in_place: once_in(random, 4),
        // Needed is nearly always granted; the rest must be refused by make.
        allow_replicas: if replicated { !once_in(random, 6) } else { once_in(random, 8) },
        allow_uncovered: if reaching_out { !once_in(random, 6) } else { once_in(random, 4) },
        entry_sync: !once_in(random, 6),
        exit_sync: [ExitSync::Output, ExitSync::Input, ExitSync::Input, ExitSync::Input, ExitSync::Everyone]
            [random.usize(0..5)],
        threads: [1, 1, 1, 2, 3][random.usize(0..5)],
        timeout_ms: if random.bool() { 0 } else { 100_000 },
    }
}
