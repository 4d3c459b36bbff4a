package agent_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestNodeBecomesReady(t *testing.T) {
	n := newNode(t)
	n.startAgent()
	n.ovs.RunController()
	n.join()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	_ = errors.New
}
