//! The names of the methods of the Open Inference Protocol's gRPC service.

use tidegate_codec::open_inference::extensions::{self, Elsewhere};

/// The service's name.
pub const SERVICE: &str = "inference.GRPCInferenceService";

/// What a method of the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Predicts.
    ModelInfer,
    /// Predicts request after request, each with as many answers as there are.
    ModelStreamInfer,
    /// Whether the process answers.
    ServerLive,
    /// Whether requests should come.
    ServerReady,
    /// Whether a model would answer.
    ModelReady,
    /// Name, version and extensions of the server.
    ServerMetadata,
    /// A model's versions and tensors.
    ModelMetadata,
    /// How a model is called, in Triton's form.
    ModelConfig,
    /// What models were asked, and how long it took.
    ModelStatistics,
    /// All models.
    RepositoryIndex,
    /// Registered regions of shared memory.
    SharedMemoryStatus,
    /// Registers one.
    SharedMemoryRegister,
    /// Forgets one, or all.
    SharedMemoryUnregister,
    /// Asks for regions of devices' memory, of which there are none, or forgets them.
    NoDeviceMemory,
    /// Asks for an extension that is not here.
    Elsewhere(Elsewhere),
}

impl Method {
    /// Whether it asks for the server's health, which anybody may.
    pub fn is_about_health(self) -> bool {
        matches!(self, Method::ServerLive | Method::ServerReady)
    }

    /// Whether its answer tells of all models, however many there are.
    pub fn is_about_all(self) -> bool {
        matches!(self, Method::RepositoryIndex | Method::ModelStatistics)
    }
}

/// The methods that reflection tells of, by their names in the service.
pub const METHODS: [(&str, Method); 12] = [
    ("ModelInfer", Method::ModelInfer),
    ("ModelStreamInfer", Method::ModelStreamInfer),
    ("ServerLive", Method::ServerLive),
    ("ServerReady", Method::ServerReady),
    ("ModelReady", Method::ModelReady),
    ("ServerMetadata", Method::ServerMetadata),
    ("ModelMetadata", Method::ModelMetadata),
    ("ModelConfig", Method::ModelConfig),
    ("ModelStatistics", Method::ModelStatistics),
    ("RepositoryIndex", Method::RepositoryIndex),
    ("RepositoryModelLoad", Method::Elsewhere(Elsewhere::Loading)),
    ("RepositoryModelUnload", Method::Elsewhere(Elsewhere::Loading)),
];

/// Those of Triton's extension, of which reflection does not tell.
const SHARED_MEMORY: [(&str, Method); 5] = [
    ("CudaSharedMemoryStatus", Method::NoDeviceMemory),
    ("CudaSharedMemoryUnregister", Method::NoDeviceMemory),
    ("SystemSharedMemoryStatus", Method::SharedMemoryStatus),
    ("SystemSharedMemoryRegister", Method::SharedMemoryRegister),
    ("SystemSharedMemoryUnregister", Method::SharedMemoryUnregister),
];

/// The method that a path names.
pub fn method(path: &str) -> Option<Method> {
    let name = path.strip_prefix('/')?.strip_prefix(SERVICE)?.strip_prefix('/')?;
    let refused = || {
        let found = extensions::METHODS.iter().find(|(known, _)| *known == name);
        found.map(|(_, elsewhere)| Method::Elsewhere(*elsewhere))
    };
    let mut all = METHODS.iter().chain(&SHARED_MEMORY);
    all.find(|(known, _)| *known == name).map(|(_, method)| *method).or_else(refused)
}
