//! Regions of shared memory that clients of this machine registered. They are read and written as files: a client that cuts
//! one short gets an error, where mapped memory would end the process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidegate_codec::open_inference::extensions::Elsewhere;
use tidegate_codec::open_inference::shared_memory::{Region, Registration};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::sync::lock;

/// Regions that may be registered at a time; each keeps a file open.
const MOST: usize = 256;
/// Where the system keeps shared memory objects (`shm_open`).
const OBJECTS: &str = "/dev/shm";

/// All that are registered.
#[derive(Debug, Default)]
pub struct SharedMemory {
    allowed: bool,
    regions: Mutex<BTreeMap<String, Arc<Object>>>,
}

/// One region.
#[derive(Debug)]
struct Object {
    registration: Registration,
    file: File,
}

impl SharedMemory {
    /// None yet; none at all where they are not allowed.
    pub fn new(allowed: bool) -> SharedMemory {
        SharedMemory { allowed, regions: Mutex::default() }
    }

    /// Whether clients may register any.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether none is registered.
    pub fn is_empty(&self) -> bool {
        lock(&self.regions).is_empty()
    }

    /// Those of this name, all where it is empty.
    pub fn list(&self, name: &str) -> Result<Vec<Registration>, Status> {
        let regions = lock(&self.regions);
        if name.is_empty() {
            return Ok(regions.values().map(|object| object.registration.clone()).collect());
        }
        let found = regions.get(name).ok_or_else(|| unknown(name))?;
        Ok(vec![found.registration.clone()])
    }

    /// Opens an object and keeps it under a name.
    pub fn register(&self, registration: Registration) -> Result<(), Status> {
        self.check_allowed()?;
        let name = registration.name.clone();
        if name.is_empty() {
            return Err(Status::invalid("a shared memory region needs a name"));
        }
        let file = open(&registration)?;
        let mut regions = lock(&self.regions);
        if regions.contains_key(&name) {
            let why = format!("shared memory region '{name}' already in manager");
            return Err(Status::new(Code::AlreadyExists, why));
        }
        if regions.len() == MOST {
            return Err(Status::exhausted(format!("{MOST} shared memory regions are registered: unregister some")));
        }
        regions.insert(name, Arc::new(Object { registration, file }));
        Ok(())
    }

    /// Forgets the region of this name, or all where it is empty. One that is not there is forgotten already.
    pub fn unregister(&self, name: &str) {
        let mut regions = lock(&self.regions);
        if name.is_empty() {
            regions.clear();
        } else {
            drop(regions.remove(name));
        }
    }

    /// The region of this name.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Region>, Status> {
        self.check_allowed()?;
        let found: Arc<dyn Region> = lock(&self.regions).get(name).cloned().ok_or_else(|| unknown(name))?;
        Ok(found)
    }

    fn check_allowed(&self) -> Result<(), Status> {
        if self.allowed { Ok(()) } else { Err(Elsewhere::SharedMemory.refusal()) }
    }
}

fn unknown(name: &str) -> Status {
    Status::invalid(format!("Unable to find shared memory region: '{name}': register it first"))
}

/// The object of a region, which has to be this process's user's own and as large as the region.
fn open(of: &Registration) -> Result<File, Status> {
    let Registration { name, key, offset, size } = of;
    let refuse = |why: &str| Status::invalid(format!("Unable to open shared memory region: '{name}': {why}"));
    let object = key.strip_prefix('/').unwrap_or(key);
    if object.is_empty() || object.contains('/') || object == "." || object == ".." {
        return Err(refuse(&format!("its key is '{key}': use the name of a shared memory object, such as /input")));
    }
    let path = Path::new(OBJECTS).join(object);
    let cannot = |why: std::io::Error| refuse(&format!("'{key}' cannot be opened: {why}"));
    let own = std::fs::metadata("/proc/self").map_err(cannot)?;
    // Before it is opened, which may wait for ever where it is a pipe.
    let named = std::fs::symlink_metadata(&path).map_err(cannot)?;
    if !named.is_file() || named.uid() != own.uid() {
        return Err(refuse(&format!("'{key}' is not a shared memory object of the user that runs this server")));
    }
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    if (found.dev(), found.ino()) != (named.dev(), named.ino()) {
        return Err(refuse(&format!("'{key}' was replaced by another while it was opened: try again")));
    }
    let end = offset.checked_add(*size).filter(|end| *size > 0 && *end <= found.len());
    end.ok_or_else(|| {
        let there = found.len();
        refuse(&format!("'{key}' has {there} bytes, of which offset {offset} and byte_size {size} are no part"))
    })?;
    Ok(file)
}

impl Object {
    /// Where a part of the region begins in its object.
    fn begin(&self, offset: u64, size: u64) -> Result<u64, Status> {
        let Registration { name, offset: first, size: all, .. } = &self.registration;
        let within = offset.checked_add(size).is_some_and(|end| end <= *all);
        within.then(|| first + offset).ok_or_else(|| {
            Status::invalid(format!(
                "Invalid offset + byte size for shared memory region: '{name}': it has {all} bytes, of which offset \
                 {offset} and {size} bytes are no part"
            ))
        })
    }

    fn failed(&self, what: &str, why: &std::io::Error) -> Status {
        let name = &self.registration.name;
        Status::invalid(format!("shared memory region '{name}' cannot be {what}: {why}"))
    }
}

impl Region for Object {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Status> {
        let begin = self.begin(offset, bytes.len() as u64)?;
        self.file.read_exact_at(bytes, begin).map_err(|why| self.failed("read", &why))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Status> {
        let begin = self.begin(offset, bytes.len() as u64)?;
        // Writing behind the end would make the object larger.
        let there = self.file.metadata().map_err(|why| self.failed("written", &why))?.len();
        if begin + bytes.len() as u64 > there {
            return Err(self.failed("written", &std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
        }
        self.file.write_all_at(bytes, begin).map_err(|why| self.failed("written", &why))
    }
}
