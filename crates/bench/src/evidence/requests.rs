//! What the requests of the program itself named.
//!
//! A request on a buffer in device memory either moves its bytes by peer-to-peer DMA or fails: the
//! kernel has no way to bounce one (`block/blk-map.c` and `drivers/nvme/host/pci.c`, Linux 6.2 and
//! later). It does not tell whether the bytes arrived; content does.

use peerlane_results::{BytesByRoute, RouteEvidence, RouteVerdict};

use super::says;

pub(super) fn look(asked: BytesByRoute, moved: BytesByRoute) -> RouteEvidence {
    let showed = format!(
        "{} of {} bytes asked between devices, {} of {} through host memory",
        moved.p2p.0, asked.p2p.0, moved.host.0, asked.host.0
    );
    let verdict = if moved != asked {
        RouteVerdict::Contradicted
    } else if moved == BytesByRoute::default() {
        RouteVerdict::Silent
    } else {
        RouteVerdict::Consistent
    };
    says(verdict, "the memory that each request named", showed)
}

#[cfg(test)]
mod tests {
    use peerlane_units::Bytes;

    use super::*;

    #[test]
    fn bytes_that_fell_back_contradict_the_route() {
        let of = |p2p, host| BytesByRoute { p2p: Bytes(p2p), host: Bytes(host) };
        assert_eq!(look(of(9, 0), of(9, 0)).says, RouteVerdict::Consistent);
        assert_eq!(look(of(9, 0), of(8, 1)).says, RouteVerdict::Contradicted);
        assert_eq!(look(of(0, 0), of(0, 0)).says, RouteVerdict::Silent);
    }
}
