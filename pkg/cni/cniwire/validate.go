package cniwire

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
)

// Maximum lengths of names: the limits of Kubernetes (RFC 1123 label and subdomain) and of the file system, because
// runtimes use container IDs as file names.
const (
	maxLabel       = 63
	maxSubdomain   = 253
	maxUID         = 128
	maxContainerID = 255
)

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// The UID of a static pod is a hash without hyphens, so the form of a UUID is not required.
	uid       = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`)
	processNS = regexp.MustCompile(`^/proc/[1-9][0-9]*/(task/[1-9][0-9]*/)?ns/net$`)
)

// NetNSRoots returns the directories in which runtimes keep network namespaces.
func NetNSRoots() []string {
	return []string{"/run/netns", "/var/run/netns"}
}

// Validate returns a *Error that names the invalid field, or nil. The path of a network namespace must be directly
// below one of the roots or belong to a process. For DEL only the container and the interface matter, because DEL
// must succeed for whatever existed before.
func (r Request) Validate(netNSRoots []string) error {
	if r.Version != Version {
		return Errorf(CodeTryAgainLater, "weft-cni has protocol version %d, but weft-agent has %d", r.Version, Version)
	}
	config, err := ParseConfig(r.Config)
	if err != nil {
		return err
	}
	switch r.Command {
	case Status:
		return nil
	case GC:
		return config.validateAttachments()
	case Del:
		return firstError(r.validateContainer, r.Args.validate)
	case Add:
		return firstError(r.validateContainer, r.Args.validate, r.Args.validatePresent, func() error {
			return validateNetNS(r.NetNS, netNSRoots)
		}, config.validateFirst)
	case Check:
		return firstError(r.validateContainer, r.Args.validate, r.Args.validatePresent, func() error {
			return validateNetNS(r.NetNS, netNSRoots)
		}, config.validatePrevResult)
	}
	return Errorf(CodeInvalidEnvironment, "CNI_COMMAND %q is unknown", r.Command)
}

func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r Request) validateContainer() error {
	if err := utils.ValidateContainerID(r.ContainerID); err != nil {
		return invalid("CNI_CONTAINERID", r.ContainerID, err)
	}
	if len(r.ContainerID) > maxContainerID {
		return Errorf(CodeInvalidEnvironment, "CNI_CONTAINERID has %d characters, more than %d", len(r.ContainerID), maxContainerID)
	}
	if err := utils.ValidateInterfaceName(r.IfName); err != nil {
		return invalid("CNI_IFNAME", r.IfName, err)
	}
	return nil
}

func invalid(field, value string, err *types.Error) error {
	return Errorf(CodeInvalidEnvironment, "%s %q: %s", field, value, err.Msg)
}

func (a Args) validatePresent() error {
	if a.PodNamespace == "" {
		return Errorf(CodeInvalidEnvironment, "CNI_ARGS lacks K8S_POD_NAMESPACE")
	}
	if a.PodName == "" {
		return Errorf(CodeInvalidEnvironment, "CNI_ARGS lacks K8S_POD_NAME")
	}
	return nil
}

func (a Args) validate() error {
	for _, field := range []struct {
		name, value string
		form        *regexp.Regexp
		max         int
	}{
		{"K8S_POD_NAMESPACE", a.PodNamespace, label, maxLabel},
		{"K8S_POD_NAME", a.PodName, subdomain, maxSubdomain},
		{"K8S_POD_UID", a.PodUID, uid, maxUID},
	} {
		if field.value == "" {
			continue
		}
		if len(field.value) > field.max || !field.form.MatchString(field.value) {
			return Errorf(CodeInvalidEnvironment, "CNI_ARGS: %s %.300q is not valid", field.name, field.value)
		}
	}
	if a.InfraContainerID == "" {
		return nil
	}
	if err := utils.ValidateContainerID(a.InfraContainerID); err != nil {
		return invalid("CNI_ARGS: K8S_POD_INFRA_CONTAINER_ID", a.InfraContainerID, err)
	}
	return nil
}

// validateFirst returns an error if another plugin ran before, because ADD returns only its own result and would lose
// the other one.
func (c Config) validateFirst() error {
	if len(c.PrevResult) != 0 && string(c.PrevResult) != "null" {
		return Errorf(CodeInvalidConfig, "network configuration: ADD has a prevResult: weft-cni must be the first plugin of the list")
	}
	return nil
}

// validatePrevResult returns an error if CHECK lacks the result of ADD to compare with (specification, section 4).
func (c Config) validatePrevResult() error {
	if len(c.PrevResult) == 0 {
		return Errorf(CodeInvalidConfig, "network configuration: CHECK needs prevResult")
	}
	return nil
}

// validateAttachments returns an error if an entry of the list is invalid. Such a list does not come from the
// runtime, so nothing may be removed because of it.
func (c Config) validateAttachments() error {
	for i, a := range c.ValidAttachments {
		if err := utils.ValidateContainerID(a.ContainerID); err != nil || len(a.ContainerID) > maxContainerID {
			return Errorf(CodeInvalidConfig, "network configuration: cni.dev/valid-attachments[%d]: containerID %.300q is not valid",
				i, a.ContainerID)
		}
		if err := utils.ValidateInterfaceName(a.IfName); err != nil {
			return Errorf(CodeInvalidConfig, "network configuration: cni.dev/valid-attachments[%d]: ifname %.300q: %s",
				i, a.IfName, err.Msg)
		}
	}
	return nil
}

// validateNetNS checks only the path. Whether a network namespace exists there shows when it is opened.
func validateNetNS(path string, roots []string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return Errorf(CodeInvalidEnvironment, "CNI_NETNS %q is not a clean absolute path", path)
	}
	if processNS.MatchString(path) {
		return nil
	}
	for _, root := range roots {
		if filepath.Dir(path) == filepath.Clean(root) {
			return nil
		}
	}
	return Errorf(CodeInvalidEnvironment, "CNI_NETNS %q is not in %s", path, strings.Join(roots, ", "))
}
