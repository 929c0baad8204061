//! Random boxes and random memory layouts for them.

use super::side::Side;
use fastrand::Rng;

/// A box without its layout.
pub type Bounds = (Vec<i64>, Vec<i64>);

pub fn volume(bounds: &Bounds) -> i64 {
    (0..bounds.0.len()).map(|d| bounds.1[d] - bounds.0[d]).product()
}

/// True once in `n` times.
pub fn once_in(random: &mut Rng, n: usize) -> bool {
    random.usize(0..n) == 0
}

/// A box of at most `most` elements in `ndims` dimensions, with any origin.
pub fn global_box(random: &mut Rng, ndims: usize, most: i64) -> Bounds {
    let mut extents = vec![1; ndims];
    let mut room = most;
    let mut order: Vec<usize> = (0..ndims).collect();
    random.shuffle(&mut order);
    for (done, &d) in order.iter().enumerate() {
        // The even share of what room is left, or a good deal more or less of it.
        let share = (room as f64).powf(1.0 / (ndims - done) as f64).ceil() as i64;
        extents[d] = random.i64(1..=(share * 2).min(room).max(1));
        room /= extents[d];
    }
    let lower: Vec<i64> = extents
        .iter()
        .map(|extent| match random.usize(0..20) {
            0..8 => 0,
            8..17 => random.i64(-20..=20),
            17 => random.i64(-(1 << 40)..=1 << 40),
            18 => i64::MIN,
            _ => i64::MAX - extent,
        })
        .collect();
    let upper = lower.iter().zip(&extents).map(|(l, e)| l + e).collect();
    (lower, upper)
}

/// Disjoint boxes that cover `whole` once, some of them empty.
pub fn split(random: &mut Rng, whole: &Bounds, parts: usize) -> Vec<Bounds> {
    let mut boxes = Vec::new();
    split_into(random, whole.clone(), parts, &mut boxes);
    random.shuffle(&mut boxes);
    boxes
}

fn split_into(random: &mut Rng, whole: Bounds, parts: usize, boxes: &mut Vec<Bounds>) {
    if parts == 1 {
        boxes.push(whole);
        return;
    }
    let first = if random.bool() { parts / 2 } else { random.usize(1..parts) };
    let long: Vec<usize> = (0..whole.0.len()).filter(|&d| whole.1[d] - whole.0[d] > 1).collect();
    let d = match long.is_empty() || once_in(random, 12) {
        true => random.usize(0..whole.0.len()),
        false => long[random.usize(0..long.len())],
    };
    let extent = whole.1[d] - whole.0[d];
    // Mostly in proportion, sometimes anywhere, so that empty boxes stay common but not the rule.
    let cut = match random.usize(0..4) {
        0 => random.i64(0..=extent),
        1 => extent * first as i64 / parts as i64,
        _ => (extent * first as i64 + parts as i64 - 1) / parts as i64,
    };
    let (mut before, mut after) = (whole.clone(), whole);
    before.1[d] = before.0[d] + cut;
    after.0[d] = before.1[d];
    split_into(random, before, first, boxes);
    split_into(random, after, parts - first, boxes);
}

/// Any box inside `whole`.
pub fn sub_box(random: &mut Rng, whole: &Bounds) -> Bounds {
    let mut part = whole.clone();
    for d in 0..whole.0.len() {
        let extent = whole.1[d] - whole.0[d];
        let first = random.i64(0..=extent);
        let last = random.i64(first..=extent);
        // An empty dimension empties the box: rare on purpose.
        if last > first || once_in(random, 10) {
            (part.0[d], part.1[d]) = (whole.0[d] + first, whole.0[d] + last);
        }
    }
    part
}

/// `inner` grown by up to `most` in every direction, as far as `whole` goes.
pub fn grown(random: &mut Rng, inner: &Bounds, whole: &Bounds, most: i64) -> Bounds {
    if volume(inner) == 0 {
        return inner.clone();
    }
    let mut outer = inner.clone();
    for d in 0..inner.0.len() {
        outer.0[d] -= random.i64(0..=most).min(outer.0[d] - whole.0[d]);
        outer.1[d] += random.i64(0..=most).min(whole.1[d] - outer.1[d]);
    }
    outer
}

/// What a layout may be like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Every element has a place of its own.
    Distinct,
    /// Several elements may share one (inputs).
    Shared,
}

/// A layout for the box: packed, permuted, padded, reversed, with gaps, entangled or shared; of at most `most`
/// places. Strides that do not matter are any number.
pub fn layout(random: &mut Rng, bounds: Bounds, places: Use, most: i64) -> Side {
    let mut side = Side { lower: bounds.0, upper: bounds.1, strides: None };
    if once_in(random, 4) {
        return side;
    }
    for _ in 0..8 {
        let strides = match random.usize(0..30) {
            0..26 => nested_strides(random, &side),
            26 | 27 => (0..side.ndims()).map(|_| random.i64(-9..=9)).collect(),
            _ if places == Use::Shared => shared_strides(random, &side),
            _ => nested_strides(random, &side),
        };
        side.strides = Some(strides);
        let (first, last) = side.reach();
        if last - first <= most && (places == Use::Shared || is_distinct(&side)) {
            return with_noise(random, side);
        }
    }
    side.strides = None;
    side
}

fn nested_strides(random: &mut Rng, side: &Side) -> Vec<i64> {
    let mut order: Vec<usize> = (0..side.ndims()).rev().collect();
    if random.bool() {
        random.shuffle(&mut order);
    }
    let padded = random.bool();
    let reversed = once_in(random, 4);
    let mut strides = vec![0; side.ndims()];
    let mut next = if once_in(random, 6) { random.i64(2..=3) } else { 1 };
    for d in order {
        strides[d] = if reversed && random.bool() { -next } else { next };
        let padding = if padded && random.bool() { random.i64(0..=3) } else { 0 };
        next *= side.extent(d).max(1) + padding;
    }
    strides
}

/// As [`nested_strides`], but with stride 0 or a sliding window somewhere.
fn shared_strides(random: &mut Rng, side: &Side) -> Vec<i64> {
    let mut strides = nested_strides(random, side);
    for _ in 0..random.usize(1..=2) {
        let d = random.usize(0..strides.len());
        strides[d] = if once_in(random, 3) { random.i64(-2..=2) } else { 0 };
    }
    strides
}

fn is_distinct(side: &Side) -> bool {
    let mut places = Vec::new();
    side.for_each(|_, place| places.push(place));
    places.sort_unstable();
    places.windows(2).all(|pair| pair[0] != pair[1])
}

/// Any number where a stride is ignored: extent 1, or an empty box.
fn with_noise(random: &mut Rng, mut side: Side) -> Side {
    let ignored: Vec<usize> = (0..side.ndims()).filter(|&d| side.is_empty() || side.extent(d) == 1).collect();
    if let Some(strides) = &mut side.strides {
        for d in ignored {
            strides[d] = match random.usize(0..5) {
                0 => 0,
                1 => i64::MIN,
                2 => i64::MAX,
                3 => random.i64(-50..=50),
                _ => strides[d],
            };
        }
    }
    side
}
