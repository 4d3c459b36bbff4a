package ui

import (
	"fmt"
	"net/http"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/kubectl/ui/reach"
)

// reachAnswer is the answer about who may reach a pod.
type reachAnswer struct {
	reach.Answer
	// Unread are the kinds that could not be read, without which the answer may be wrong.
	Unread []Refusal `json:"unread"`
}

// reach answers who may reach a pod, from the objects of the feeds.
func (s *Server) reach(w http.ResponseWriter, r *http.Request) {
	in, subject, unread := s.reachInput(r.FormValue("pod"))
	if subject == nil {
		message := fmt.Sprintf("there is no pod %q", r.FormValue("pod"))
		if len(unread) > 0 {
			answer(w, http.StatusForbidden, unread[0])
			return
		}
		fail(w, http.StatusNotFound, message)
		return
	}
	answer(w, http.StatusOK, reachAnswer{reach.Of(in, subject), unread})
}

// reachInput collects the objects. Objects are never changed after a feed has received them.
func (s *Server) reachInput(pod string) (in reach.Input, subject *corev1.Pod, unread []Refusal) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	in.Namespaces, unread = map[string]labels.Set{}, []Refusal{}
	for _, f := range s.feeds {
		for key, o := range f.objects {
			switch o := o.(type) {
			case *corev1.Pod:
				in.Pods = append(in.Pods, o)
				if key == pod {
					subject = o
				}
			case *corev1.Namespace:
				in.Namespaces[o.Name] = o.Labels
			case *corev1.Node:
				in.Nodes = append(in.Nodes, o)
			case *networkingv1.NetworkPolicy:
				in.Policies = append(in.Policies, o)
			case metav1.Object:
				if f.decides {
					in.Cluster = append(in.Cluster, o)
				}
			}
		}
		if refusal, ok := s.hub.tables[f.table].refused[f]; ok && f.decides {
			unread = append(unread, refusal)
		}
	}
	return in, subject, unread
}

// kindOf is the name of an object's kind, which is that of its type.
func kindOf(o client.Object) string { return reflect.TypeOf(o).Elem().Name() }
