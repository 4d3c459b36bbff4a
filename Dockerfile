# A single image contains the operator, the agent, the CNI plugins that the agent installs on its host, OVN and Open vSwitch.
ARG GO_VERSION=1.26
FROM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags "-s -w -X github.com/weft-network/weft/pkg/process/version.version=${VERSION}" -o /out/ . ./cmd/weft-agent ./cmd/weft-ovn ./cmd/weft-capture \
 && go build -trimpath -ldflags "-s -w" -o /out/cni/ ./cmd/weft-cni github.com/containernetworking/plugins/plugins/main/loopback

# The agent executes ovs-ofctl and nft. weft-ovn executes the servers of OVN and Open vSwitch.
FROM debian:trixie-slim
COPY config/image/packages /packages
RUN apt-get update && apt-get install -y --no-install-recommends $(cat /packages) && rm -rf /var/lib/apt/lists/* /packages \
 && ln -s ../lib/ipsec/charon /usr/sbin/charon
COPY --from=build /out/weft /out/weft-agent /out/weft-ovn /out/weft-capture /usr/bin/
COPY --from=build /out/cni/ /opt/weft/cni/
# Record the versions of OVN and Open vSwitch, so that an upgrade to a Weft with the same versions restarts neither.
RUN ["/usr/bin/weft-ovn", "programs"]
ENTRYPOINT ["/usr/bin/weft"]
