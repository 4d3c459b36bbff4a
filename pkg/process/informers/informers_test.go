package informers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weft-network/weft/pkg/process/informers"
)

// interrupted serves one Namespace whose watches end at once because their revision is too old. Each list is the next state.
type interrupted struct {
	next  chan string // the UID of the next state
	lists int
}

// ServeHTTP implements http.Handler.
func (s *interrupted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"):
		w.WriteHeader(http.StatusUnprocessableEntity) // the cache lists instead
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case query.Has("watch"):
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
	default:
		s.lists++
		fmt.Fprintf(w, `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"%[1]d"},
			"items":[{"metadata":{"name":"a","uid":"%[2]s","resourceVersion":"%[1]d"}}]}`, s.lists, <-s.next)
	}
}

func TestARecreatedObjectIsDeletedAndCreated(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	for name, informer := range map[string]func(cache.Cache) (cache.Informer, error){
		"by object": func(c cache.Cache) (cache.Informer, error) { return c.GetInformer(t.Context(), &corev1.Namespace{}) },
		"by kind":   func(c cache.Cache) (cache.Informer, error) { return c.GetInformerForKind(t.Context(), kind) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the cache pauses before it lists again
			states, events := make(chan string), make(chan string, 10)
			server := httptest.NewServer(&interrupted{next: states})
			t.Cleanup(server.Close)
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(kind, meta.RESTScopeRoot)
			config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
			caches, err := informers.NewCache(config, cache.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = caches.Start(t.Context()) }()
			go func() {
				for _, uid := range []string{"first", "second", "second"} {
					select {
					case states <- uid:
					case <-t.Context().Done():
					}
				}
				<-t.Context().Done()
				close(states) // for a request that waits
			}()
			found, err := informer(caches)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := found.AddEventHandler(recorder(events)); err != nil {
				t.Fatal(err)
			}
			got := []string{<-events, <-events, <-events, <-events}
			if diff := cmp.Diff([]string{"add first", "delete first", "add second", "update second second"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// recorder sends what happens to which object.
func recorder(to chan<- string) toolscache.ResourceEventHandler {
	uid := func(o any) string {
		namespace, ok := o.(*corev1.Namespace)
		if !ok {
			return fmt.Sprintf("%T", o)
		}
		return string(namespace.UID)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { to <- "add " + uid(o) },
		UpdateFunc: func(before, after any) { to <- "update " + uid(before) + " " + uid(after) },
		DeleteFunc: func(o any) { to <- "delete " + uid(o) },
	}
}
