package options

import (
	"errors"
	"flag"
	"os"
	"time"

	"github.com/weft-network/weft/pkg/ports"
)

// Operands is the command line of "weft operands".
type Operands struct {
	// Namespace and Pod are this process's own. Its image is also the operands' image, unless Image names another.
	Namespace, Pod, Image string
	// APIServerHost and APIServerPort are the address at which this process and the operands reach the API server.
	APIServerHost, APIServerPort string
	// Health and Metrics are listen addresses. "0" switches them off.
	Health, Metrics string
	// Identity is the lease holder's name, the same for every process of a pod.
	Identity string
	// RolloutPatience is how long a replaced operand may take to work.
	RolloutPatience time.Duration
	// OperatorCondition is the name of OLM's object for this operator. OLM sets it in the environment.
	OperatorCondition string
	// LeaderElection is off only if there is certainly one process, as in tests.
	LeaderElection bool
	Log            Log
}

// ParseOperands parses the arguments after "operands". The environment provides the defaults.
func ParseOperands(args []string) (Operands, error) {
	var o Operands
	flags := flag.NewFlagSet("weft operands", flag.ContinueOnError)
	o.Log.flags(flags)
	flags.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the operands (environment POD_NAMESPACE)")
	flags.StringVar(&o.Pod, "pod", os.Getenv("POD_NAME"), "name of this pod, whose image the operands use (environment POD_NAME)")
	flags.StringVar(&o.Image, "image", "", "image of the operands; empty: the image of this pod")
	flags.StringVar(&o.APIServerHost, "apiserver-host", os.Getenv("KUBERNETES_SERVICE_HOST"),
		"where the operands reach the API server (environment KUBERNETES_SERVICE_HOST)")
	flags.StringVar(&o.APIServerPort, "apiserver-port", os.Getenv("KUBERNETES_SERVICE_PORT"),
		"its port (environment KUBERNETES_SERVICE_PORT)")
	flags.StringVar(&o.Health, "health-probe-bind-address", ports.Any(ports.OperandsHealth), "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ports.Any(ports.OperandsMetrics), "address of /metrics; 0 for none")
	flags.StringVar(&o.Identity, "leader-election-identity", os.Getenv("POD_UID"),
		"name of the lease's holder, the same after a restart in the same pod (environment POD_UID)")
	flags.DurationVar(&o.RolloutPatience, "rollout-patience", 5*time.Minute,
		"how long replaced operands may take to work before a rollout stops")
	flags.StringVar(&o.OperatorCondition, "operator-condition", os.Getenv("OPERATOR_CONDITION_NAME"),
		"name of the OperatorCondition that tells OLM whether it may upgrade; empty: none (environment OPERATOR_CONDITION_NAME)")
	flags.BoolVar(&o.LeaderElection, "leader-elect", true, "work only while holding the lease")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.Namespace == "":
		return o, errors.New("--namespace is required")
	case o.Pod == "" && o.Image == "":
		return o, errors.New("--pod or --image is required")
	case o.RolloutPatience <= 0:
		return o, errors.New("--rollout-patience must be more than 0")
	case o.LeaderElection && o.Identity == "":
		return o, errors.New("--leader-election-identity is required")
	case o.APIServerHost == "" || o.APIServerPort == "":
		return o, errors.New("--apiserver-host and --apiserver-port are required")
	}
	return o, nil
}
