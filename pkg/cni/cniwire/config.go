package cniwire

import (
	"encoding/json"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
)

// Config is the plugin's part of the network configuration list.
type Config struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Socket     string `json:"socket"` // absolute path; DefaultSocket if absent
	// Network is the name of the Network that a NetworkAttachmentDefinition attaches to; empty: the cluster network.
	Network    string          `json:"network,omitempty"`
	PrevResult json.RawMessage `json:"prevResult,omitempty"`
	// DNS is copied into the result (specification, section 2). If it is absent, the result has the cluster's DNS.
	DNS *types.DNS `json:"dns,omitempty"`
	// ValidAttachments lists for GC all attachments of this network that the runtime has. nil means that there is no
	// list and nothing is removed; an empty list means that there are no attachments.
	ValidAttachments []Attachment `json:"cni.dev/valid-attachments,omitempty"`
}

// Attachment names an interface of a container for GC.
type Attachment = types.GCAttachment

// ParseConfig parses the configuration that the runtime passes on standard input. Its errors are *Error.
func ParseConfig(raw []byte) (Config, error) {
	config := Config{Socket: DefaultSocket}
	if err := json.Unmarshal(raw, &config); err != nil {
		return Config{}, Errorf(CodeDecodingFailure, "network configuration: %v", err)
	}
	if err := utils.ValidateNetworkName(config.Name); err != nil {
		return Config{}, Errorf(CodeInvalidConfig, "network configuration: name %q: %v", config.Name, err)
	}
	if !filepath.IsAbs(config.Socket) {
		return Config{}, Errorf(CodeInvalidConfig, "network configuration: socket %q is not an absolute path", config.Socket)
	}
	return config, nil
}
