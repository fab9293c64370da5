//! The limit that the data plane is measured against: the same endpoints, decoders and encoders, without queue, Python
//! or log. Answers predict requests for any model with y = 0.5 x + 2 on rows of 4 floats, until its input ends.

use std::future::Future;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tidegate_codec::dtype::DType;
use tidegate_codec::json::predict_request::JsonRequest;
use tidegate_codec::json::predict_response as json_response;
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::protobuf::predict::PredictRequest;
use tidegate_codec::protobuf::predict::encode_response;
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::signatures::{RequestRows, Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Page, Slice, Words};
use tidegate_engine::limits::Limits;
use tidegate_engine::memory::Reservation;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::Tags;
use tidegate_plane::aside;
use tidegate_plane::connections::lifeline::Lifeline;
use tidegate_plane::connections::pace::Pace;
use tidegate_plane::connections::peer::Peer;
use tidegate_plane::connections::socket::WatchedSocket;
use tidegate_plane::connections::tended::Connections;
use tidegate_plane::drain::DrainWatch;
use tidegate_plane::endpoints::grpc::connection as grpc;
use tidegate_plane::endpoints::grpc::service::{GrpcCall, GrpcService};
use tidegate_plane::endpoints::rest::connection as rest;
use tidegate_plane::endpoints::rest::service::{self, RestAnswer, RestCall, RestService};
use tidegate_plane::io::listen;
use tidegate_plane::settings::Patience;
use tokio::net::TcpStream;
use tokio::sync::watch;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Echo {
    signature: Signature,
    columns: Mutex<Vec<Lease>>,
    limits: Arc<Limits>,
}

impl Echo {
    fn new(limits: Arc<Limits>) -> Result<Echo, String> {
        let spec = |name: &str| TensorSpec::new(name, DType::Float32, [-1, 4]);
        let name = "serving_default".to_owned();
        let signature =
            Signature::new(name, "tensorflow/serving/predict".to_owned(), vec![spec("x")], vec![spec("y")])?;
        Ok(Echo { signature, columns: Mutex::new(ColumnPool::new(vec![DType::Float32]).lease()), limits })
    }

    fn model_spec(&self) -> ModelSpec<'_> {
        ModelSpec { name: "echo", choice: VersionChoice::Version(1), signature_name: &self.signature.name }
    }

    /// Decodes, computes and hands the rows to `encode`.
    fn answer<T>(
        &self,
        read: impl FnOnce(&mut Page<'_>) -> Result<RequestRows, Status>,
        encode: impl FnOnce(&str, Slice<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        columns[0].truncate(0);
        let RequestRows { rows, .. } =
            read(&mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () })?;
        let mut outputs = Words::default();
        if let Column::Raw(inputs) = &*columns[0] {
            for value in inputs.as_bytes().chunks_exact(4) {
                let value = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
                outputs.push(&(value * 0.5 + 2.0).to_le_bytes());
            }
        }
        let column = Column::Raw(outputs);
        let slice = Slice { dtype: DType::Float32, column: &column, inner: &[4], first: 0, rows, unbatched: false };
        encode("y", slice)
    }
}

impl GrpcService for Echo {
    fn call(&self, call: GrpcCall, _: &mut Option<Reservation>) {
        let limit = self.limits.max_message_bytes();
        let answer = PredictRequest::parse(&call.message).and_then(|request| {
            self.answer(
                |page| request.read_inputs(&self.signature, page, limit),
                |name, slice| {
                    Ok(encode_response(std::iter::once((name, slice)), &self.model_spec(), Numbers::InFields))
                },
            )
        });
        match answer {
            Ok(frame) => call.reply.succeed(frame, Tags::default()),
            Err(status) => call.reply.fail(&status, Tags::default()),
        }
    }
}

impl RestService for Echo {
    fn call(&self, call: RestCall, _: &mut Option<Reservation>) -> RestAnswer {
        let answer = JsonRequest::parse(&call.body).and_then(|request| {
            self.answer(
                |page| request.read_inputs(&self.signature, page),
                |name, slice| json_response::encode(&[(name, slice)], request.form),
            )
        });
        RestAnswer::Ready(match answer {
            Ok(body) => service::with_body(StatusCode::OK, body, Tags::default()),
            Err(status) => service::failure(&status, Tags::default()),
        })
    }
}

async fn accept<F: Future<Output = ()> + Send + 'static>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((socket, _)) = listener.accept().await {
        let _ = socket.set_nodelay(true);
        tokio::spawn(serve(socket));
    }
}

/// Ends the process with its input. A signal would end it before an instrumented build has written its counters.
fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}

fn argument(name: &str) -> String {
    let arguments: Vec<String> = std::env::args().collect();
    let found = arguments.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
    found.unwrap_or_else(|| "127.0.0.1:0".to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut grpc, grpc_address) = listen::listeners(&argument("--grpc"), 1)?;
    let (mut rest, rest_address) = listen::listeners(&argument("--rest"), 1)?;
    let (Some(grpc), Some(rest)) = (grpc.pop(), rest.pop()) else {
        return Err("no listener".into());
    };
    let limits = Limits::new(64 << 20, 4096, Duration::from_secs(30), Duration::from_secs(10), 1 << 30);
    let limits = Arc::new(limits);
    let echo = Arc::new(Echo::new(limits.clone())?);
    let (_sender, draining) = watch::channel(false);
    let long = Duration::from_secs(3600);
    let patience = Patience { header: long, idle: long, keepalive: long, write: long };
    let connections = Connections::new(patience, limits.clone(), Arc::default());
    let (aside, jobs) = aside::aside(2);
    let (aside, jobs) = (Arc::new(aside), Arc::new(jobs));
    for jobs in [jobs.clone(), jobs] {
        std::thread::spawn(move || jobs.run(&|| ()));
    }
    let pace = Pace::default();
    let peer = |endpoint| {
        let peer = Peer {
            limits: limits.clone(),
            lifeline: Lifeline::new(endpoint, false),
            connections: connections.clone(),
            pace: pace.clone(),
            aside: aside.clone(),
            names: Vec::new(),
            address: None,
            observer: None,
        };
        (peer, DrainWatch::new(draining.clone()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1009).build()?;
    end_with_input();
    println!("{{\"grpc\": \"{grpc_address}\", \"rest\": \"{rest_address}\"}}");
    runtime.block_on(async {
        let over_grpc = accept(grpc, |socket| {
            let (peer, drain) = peer(Endpoint::Grpc);
            let socket = WatchedSocket::new(socket, peer.lifeline.clone(), peer.pace.clone());
            grpc::serve(socket, echo.clone(), peer, drain)
        });
        let over_rest = accept(rest, |socket| {
            let (peer, drain) = peer(Endpoint::Rest);
            let socket = WatchedSocket::new(socket, peer.lifeline.clone(), peer.pace.clone());
            rest::serve(socket, echo.clone(), peer, drain)
        });
        tokio::join!(over_grpc, over_rest);
    });
    Ok(())
}
