//! The gRPC methods that we know against the checked-in descriptor set, the one source of the protocol.

use crate::support::messages::bytes_of;
use tidegate_plane::control;
use tidegate_plane::endpoints::grpc::{infer_methods, methods};

const DESCRIPTORS: &[u8] = include_bytes!("../../../tidegate_serving/contract/protos/descriptors.binpb");

#[test]
fn every_method_of_the_descriptor_set_is_known() {
    let (mut methods, mut inference) = (Vec::new(), Vec::new());
    let name = |descriptor: &[u8]| String::from_utf8(bytes_of(descriptor, 1).concat()).unwrap();
    for file in bytes_of(DESCRIPTORS, 1) {
        if bytes_of(file, 2).concat() == b"tensorflow.serving" {
            for service in bytes_of(file, 6) {
                let path = |method| format!("/tensorflow.serving.{}/{}", name(service), name(method));
                methods.extend(bytes_of(service, 2).into_iter().map(path));
            }
        }
    }
    for file in bytes_of(DESCRIPTORS, 1).into_iter().filter(|file| bytes_of(file, 2).concat() == b"inference") {
        let service = bytes_of(file, 6);
        inference.extend(service.iter().flat_map(|service| bytes_of(service, 2)).map(&name));
    }
    inference.sort();
    let mut known = infer_methods::METHODS.map(|(name, _)| name.to_owned());
    known.sort();
    assert_eq!(inference, known);
    methods.sort();
    let ours = control::METHODS.iter().chain(&methods::METHODS);
    let mut ours: Vec<String> = ours.map(|method| (*method).to_owned()).collect();
    ours.sort();
    assert_eq!(methods, ours);
}
