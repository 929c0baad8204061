//! The process-wide table behind all handles: what C holds is a number, not an address.
//!
//! A handle's bits, from the top: 16 of a mark that no user-space address carries, 4 of the kind of object,
//! 20 of the place in the table, 24 of the generation of that place. It is never dereferenced. A place whose
//! generations are used up is not used again, so a stale handle never becomes somebody else's.

use crate::error::{Error, Result, Status};
use std::any::Any;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const MARK: u64 = 0xb0c5;
const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 24;
const MOST_HANDLES: usize = 1 << INDEX_BITS;
const LAST_GENERATION: u32 = (1 << GENERATION_BITS) - 1;

/// The kinds of objects that C holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reshape = 1,
    Communicator = 2,
    Stream = 3,
}

impl Kind {
    fn c_name(self) -> &'static str {
        match self {
            Kind::Reshape => "boxwise_handle_t",
            Kind::Communicator => "boxwise_comm_t",
            Kind::Stream => "boxwise_stream_t",
        }
    }
}

/// What can stand in the table.
pub trait Object: Send + Sync + 'static {
    const KIND: Kind;
}

/// A place of the table.
struct Slot {
    generation: u32,
    object: Option<Arc<dyn Any + Send + Sync>>,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { slots: Vec::new(), free: Vec::new() });

// The table is whole at every step, so a panic elsewhere while it was held does no harm.
fn table() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn table_mut() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// A handle taken apart.
struct Parts {
    kind: u64,
    index: usize,
    generation: u32,
}

impl Parts {
    fn of(handle: u64) -> Option<Parts> {
        (handle >> 48 == MARK).then_some(Parts {
            kind: (handle >> 44) & 0xf,
            index: (handle >> GENERATION_BITS) as usize & (MOST_HANDLES - 1),
            generation: handle as u32 & LAST_GENERATION,
        })
    }

    fn to_bits(&self) -> u64 {
        MARK << 48 | self.kind << 44 | (self.index as u64) << GENERATION_BITS | u64::from(self.generation)
    }
}

/// Puts the object into the table and returns its handle, typed as C wants it.
pub fn insert<T: Object, C>(object: T) -> Result<*mut C> {
    let object: Arc<dyn Any + Send + Sync> = Arc::new(object);
    let mut table = table_mut();
    let index = match table.free.pop() {
        Some(index) => index,
        None if table.slots.len() == MOST_HANDLES => {
            return Err(Error::new(
                Status::OutOfMemory,
                format!("more than {MOST_HANDLES} handles; destroy those that are no longer needed"),
            ));
        }
        None => {
            table.slots.push(Slot { generation: 0, object: None });
            table.slots.len() - 1
        }
    };
    let slot = &mut table.slots[index];
    slot.generation += 1;
    slot.object = Some(object);
    let parts = Parts { kind: T::KIND as u64, index, generation: slot.generation };
    Ok(ptr::without_provenance_mut(parts.to_bits() as usize))
}

/// The object behind the handle passed as the argument `name`.
pub fn get<T: Object, C>(name: &str, handle: *const C) -> Result<Arc<T>> {
    let parts = check_kind::<T, C>(name, handle)?;
    // The guard must be gone before `gone` takes another: a writer between the two would wait for both.
    let found = find(&table(), &parts).cloned();
    typed(found.ok_or_else(|| gone::<T, C>(name, handle, &parts))?)
}

/// Takes the object out of the table: from now on the handle is stale. The object itself lives for as long as
/// something still works with it.
pub fn remove<T: Object, C>(name: &str, handle: *const C) -> Result<Arc<T>> {
    let parts = check_kind::<T, C>(name, handle)?;
    let mut table = table_mut();
    if find(&table, &parts).is_none() {
        drop(table);
        return Err(gone::<T, C>(name, handle, &parts));
    }
    let slot = &mut table.slots[parts.index];
    let object = slot.object.take();
    if slot.generation < LAST_GENERATION {
        table.free.push(parts.index);
    }
    drop(table);
    object.map_or_else(|| Err(gone::<T, C>(name, handle, &parts)), typed)
}

/// Whether the pointer is a handle itself, where a pointer to one was asked for.
pub fn is_handle<C>(pointer: *const C) -> bool {
    Parts::of(pointer.addr() as u64).is_some()
}

fn find<'a>(table: &'a Table, parts: &Parts) -> Option<&'a Arc<dyn Any + Send + Sync>> {
    let slot = table.slots.get(parts.index)?;
    if slot.generation == parts.generation { slot.object.as_ref() } else { None }
}

fn typed<T: Object>(object: Arc<dyn Any + Send + Sync>) -> Result<Arc<T>> {
    // The kind in the handle was checked, and a handle with the right generation was made by `insert`.
    object.downcast().map_err(|_| Error::new(Status::Internal, "a handle's kind does not match its object"))
}

fn check_kind<T: Object, C>(name: &str, handle: *const C) -> Result<Parts> {
    let wanted = T::KIND.c_name();
    if handle.is_null() {
        return Err(Error::invalid_argument(format!("{name} is NULL, must be a {wanted}")));
    }
    let Some(parts) = Parts::of(handle.addr() as u64) else { return Err(foreign::<T, C>(name, handle)) };
    if parts.kind == T::KIND as u64 {
        return Ok(parts);
    }
    let kinds = [Kind::Reshape, Kind::Communicator, Kind::Stream];
    match kinds.into_iter().find(|&kind| kind as u64 == parts.kind) {
        Some(other) => Err(Error::invalid_argument(format!("{name} is a {}, must be a {wanted}", other.c_name()))),
        None => Err(foreign::<T, C>(name, handle)),
    }
}

/// Why a handle of the right kind has no object.
fn gone<T: Object, C>(name: &str, handle: *const C, parts: &Parts) -> Error {
    let newest = table().slots.get(parts.index).map_or(0, |slot| slot.generation);
    if (1..=newest).contains(&parts.generation) {
        let wanted = T::KIND.c_name();
        return Error::invalid_state(format!("{name} is stale: this {wanted} was already destroyed"));
    }
    foreign::<T, C>(name, handle)
}

fn foreign<T: Object, C>(name: &str, handle: *const C) -> Error {
    let wanted = T::KIND.c_name();
    Error::invalid_argument(format!("{name} is {handle:p}, which is not a {wanted}; was it ever created?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fruit(u32);
    impl Object for Fruit {
        const KIND: Kind = Kind::Reshape;
    }
    struct Tool;
    impl Object for Tool {
        const KIND: Kind = Kind::Stream;
    }

    fn fault<T>(result: Result<Arc<T>>, status: Status, text: &str) {
        let error = result.err().expect("the handle should have been refused");
        assert_eq!(error.status, status, "{}", error.detail);
        assert!(error.detail.contains(text), "{}", error.detail);
    }

    #[test]
    fn every_kind_of_wrong_handle_is_told_apart() {
        let apple: *mut u8 = insert(Fruit(1)).unwrap();
        let hammer: *mut u8 = insert(Tool).unwrap();
        assert_eq!(get::<Fruit, _>("handle", apple).unwrap().0, 1);
        fault(get::<Fruit, u8>("handle", ptr::null()), Status::InvalidArgument, "handle is NULL");
        fault(get::<Fruit, _>("handle", hammer), Status::InvalidArgument, "is a boxwise_stream_t");
        fault(get::<Fruit, u8>("handle", &0), Status::InvalidArgument, "not a boxwise_handle_t");
        let never = apple.map_addr(|bits| bits | LAST_GENERATION as usize);
        fault(get::<Fruit, _>("handle", never), Status::InvalidArgument, "not a boxwise_handle_t");
        let far = apple.map_addr(|bits| bits | (MOST_HANDLES - 1) << GENERATION_BITS);
        fault(get::<Fruit, _>("handle", far), Status::InvalidArgument, "not a boxwise_handle_t");
        let odd = apple.map_addr(|bits| bits | 0xf << 44);
        fault(get::<Fruit, _>("handle", odd), Status::InvalidArgument, "not a boxwise_handle_t");
        remove::<Fruit, _>("handle", apple).unwrap();
        remove::<Tool, _>("stream", hammer).unwrap();
        fault(get::<Fruit, _>("handle", apple), Status::InvalidState, "already destroyed");
        fault(remove::<Fruit, _>("handle", apple), Status::InvalidState, "already destroyed");
    }

    #[test]
    fn a_stale_handle_never_reaches_a_newer_object() {
        let first: *mut u8 = insert(Fruit(1)).unwrap();
        remove::<Fruit, _>("handle", first).unwrap();
        // One of these takes the place of the first.
        let others: Vec<*mut u8> = (0..64).map(|n| insert(Fruit(n)).unwrap()).collect();
        fault(get::<Fruit, _>("handle", first), Status::InvalidState, "already destroyed");
        for (n, &other) in others.iter().enumerate() {
            assert_eq!(remove::<Fruit, _>("handle", other).unwrap().0, n as u32);
        }
    }

    #[test]
    fn a_stale_handle_does_not_block_those_who_create_and_destroy() {
        let stale: *mut u8 = insert(Fruit(0)).unwrap();
        remove::<Fruit, _>("handle", stale).unwrap();
        let stale = stale.addr();
        let reader = std::thread::spawn(move || {
            for _ in 0..20_000 {
                let stale: *const u8 = ptr::without_provenance(stale);
                fault(get::<Fruit, _>("handle", stale), Status::InvalidState, "already destroyed");
            }
        });
        while !reader.is_finished() {
            let handle: *mut u8 = insert(Tool).unwrap();
            remove::<Tool, _>("stream", handle).unwrap();
        }
        reader.join().unwrap();
    }

    #[test]
    fn an_object_outlives_its_handle_while_in_use() {
        let handle: *mut u8 = insert(Fruit(7)).unwrap();
        let in_use = get::<Fruit, _>("handle", handle).unwrap();
        drop(remove::<Fruit, _>("handle", handle).unwrap());
        assert_eq!(in_use.0, 7);
    }
}
