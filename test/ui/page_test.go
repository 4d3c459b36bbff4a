package ui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The page shows the problems with their next steps, and follows the cluster without a new request of the user.
func TestHealthFollowsTheCluster(t *testing.T) {
	p, api := opened(t)
	p.await("document.querySelector('.headline')?.textContent === 'The network has a problem.'")
	p.reads(".next", "see ovs-vswitchd on the node: /var/log/openvswitch")
	api.put("clusternetworks", clusterNetwork(false))
	p.await("document.querySelector('.headline')?.textContent === 'The network is healthy.'")
	p.await("document.getElementById('announcer').textContent === '0 problems'")
}

// The browser measures the time from the start of the navigation, or from the choice of the view, until the rows are
// painted. The times are reported.
func TestPodsRender(t *testing.T) {
	p, _ := opened(t)
	count := fmt.Sprint(podCount + 2 + 1) // the pods of Weft, and the row of the heads
	for range 3 {
		p.show("overview", "Overview")
		p.show("pods", "Pods")
		p.await("document.querySelector('.grid')?.getAttribute('aria-rowcount') === '" + count + "'")
	}
	p.await("performance.getEntriesByName('weft:pods').length === 3")
	t.Logf("choice of the view until 5,002 pods are painted, in ms: %.0f", p.durations())
	for range 3 {
		p.do(chromedp.Reload())
		p.await("performance.getEntriesByName('weft:pods').length === 1")
		t.Logf("start of the navigation until 5,002 pods are painted, in ms: %.0f", p.durations())
	}
	if rows := eval[int](p, "document.querySelectorAll('.row').length"); rows > 60 {
		t.Errorf("%d rows have elements, more than are in sight", rows)
	}
	p.do(chromedp.SendKeys(chromedp.CSS(".filter input"), "worker-4999"))
	p.await("document.querySelector('.count').textContent === '0 of 5002'")
	p.empty(".filter input")
	p.do(chromedp.SendKeys(chromedp.CSS(".filter input"), "shop n7 running"))
	p.await("document.querySelector('.row') && [...document.querySelectorAll('.row')].every(row => row.innerText.includes('shop'))")
}

// A user without a mouse reaches everything.
func TestKeyboard(t *testing.T) {
	p, _ := opened(t)
	p.await("document.querySelector('.headline')")
	p.press(kb.Tab)
	p.focused("document.activeElement.id === 'skip'")
	p.press(kb.Enter)
	p.focused("document.activeElement.id === 'main'")
	p.show("pods", "Pods")
	p.focused("document.activeElement.id === 'title'")
	p.await("document.querySelectorAll('.row').length > 15")
	p.tabTo("document.activeElement.getAttribute('role') === 'row'")
	p.press(kb.ArrowDown, kb.ArrowDown, kb.PageDown, kb.End)
	p.focused("document.activeElement.getAttribute('aria-rowindex') === '5003'")
	p.press(kb.Home, kb.ArrowDown)
	p.focused("document.activeElement.getAttribute('aria-rowindex') === '3'")
	name := eval[string](p, "document.activeElement.children[1].textContent")
	p.press(kb.Enter)
	p.await("document.querySelector('h1').textContent === 'Pod batch/" + name + "'")
	p.focused("document.activeElement.id === 'title'")
	p.press("/")
	p.focused("document.activeElement.id === 'query'")
	p.empty("#query") // DevTools type the key although the page has taken it
	p.press("0a:58:0a:f4:00:05", kb.Enter)
	p.await("document.querySelector('h1').textContent === 'Search' && document.querySelectorAll('.row').length === 1")
	p.tabTo("document.activeElement.getAttribute('role') === 'row'")
	p.press(kb.Enter)
	p.await("document.querySelector('h1').textContent === 'Pod demo/client'")
	p.show("pods", "Pods")
	p.await("document.querySelectorAll('.row').length > 15")
	p.tabTo("document.activeElement.textContent === 'Node'")
	p.press(kb.Enter, kb.Enter)
	p.await("document.querySelector('[aria-sort=descending]')?.textContent === 'Node'")
}

// A search finds objects of every kind by name, address and MAC.
func TestSearch(t *testing.T) {
	p, _ := opened(t)
	for words, want := range map[string]string{
		"demo/client": "Pod", "fd00:10:244::5": "demo/client", "0a:58:0a:f4:00:05": "demo/client", "172.18.0.17": "n7",
		"02:42:ac:12:00:11": "n7", "10.96.0.10": "demo/web", "203.0.113.11": "Floating IP", "deny-all": "Policy", "storage": "Network",
	} {
		p.show("search/"+words, "Search")
		p.await("document.querySelector('.row')?.innerText.includes('" + want + "')")
	}
	p.show("search/nowhere", "Search")
	p.await("document.querySelector('main p').textContent.startsWith('0 found')")
}

// Changes of objects are listed with the fields that changed.
func TestChanges(t *testing.T) {
	p, api := opened(t)
	p.show("pods", "Pods")
	p.await("document.querySelectorAll('.row').length > 15")
	p.show("changes", "Changes")
	late := pod("demo", "late", 2, 77, "client")
	api.put("pods", late)
	p.reads(".changes li", "Pod demo/late added")
	moved := pod("demo", "late", 2, 78, "client")
	api.put("pods", moved)
	p.reads(".changes li", "10.244.1.77", "10.244.1.78")
	api.remove("pods", "demo", "late")
	p.reads(".changes li", "Pod demo/late removed")
}

// The topology begins with an overview, and each part leads to the part around it.
func TestTopology(t *testing.T) {
	p, _ := opened(t)
	p.show("topology", "Topology")
	p.await("document.querySelector('.picture svg[viewBox]')")
	before := eval[string](p, "document.querySelector('.picture svg').getAttribute('viewBox')")
	p.do(chromedp.Focus(chromedp.CSS(".picture")))
	p.press("+")
	p.await("document.querySelector('.picture svg').getAttribute('viewBox') !== '" + before + "'")
	p.press("0")
	p.await("document.querySelector('.picture svg').getAttribute('viewBox') === '" + before + "'")
	p.do(chromedp.Click(chromedp.CSS("g[data-object='node/n1'] rect")))
	p.reads("h1", "Topology around node/n1")
	p.reads("g[data-object='pod/demo/web']", "")
	p.do(chromedp.Focus(chromedp.CSS("g[data-object='pod/demo/web']")))
	p.press(kb.Enter)
	p.reads("h1", "Topology around pod/demo/web")
	p.reads("g[data-object='svc/demo/web']", "")
}

// The page of "kubectl weft topology -o html" works without the command, under its own content security policy.
func TestTopologyAsOnePage(t *testing.T) {
	chromium(t)
	api := newAPIServer(t)
	api.fill()
	text, err := exec.Command(program, "--kubeconfig", api.kubeconfig(t), "topology", "node/n1", "-o", "html").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "network.html")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, "file://"+file)
	p.await("document.querySelector('.picture svg[viewBox]')")
	before := eval[string](p, "document.querySelector('.picture svg').getAttribute('viewBox')")
	p.do(chromedp.SendKeys(chromedp.CSS("#find"), "demo/web"))
	p.reads("#found", "2 found") // the pod and its service
	p.await("document.querySelector('.picture svg').getAttribute('viewBox') !== '" + before + "'")
	p.await("document.querySelectorAll('g.found').length === 2")
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, wrong := range eval[[]string](p, checks) {
			t.Errorf("%s: %s", scheme, wrong)
		}
		if *pictures != "" {
			p.picture("html-" + scheme)
		}
	}
}

// The form of a trace answers with the verdict, the way, and the picture.
func TestTrace(t *testing.T) {
	p, _ := opened(t)
	p.show("pods/demo/web", "Pod demo/web")
	p.await("document.querySelector('.actions')")
	p.do(chromedp.Click(chromedp.Search("//a[text()='Trace to it']")))
	p.await("document.querySelector('h1').textContent === 'Trace' && document.getElementById('trace-to').value === 'demo/web'")
	p.do(chromedp.SendKeys(chromedp.CSS("#trace-from"), "demo/client"), chromedp.SendKeys(chromedp.CSS("#trace-port"), "8081"),
		chromedp.SetValue(chromedp.CSS("#trace-family"), "IPv4"))
	p.press(kb.Enter)
	p.reads(".answer h2", "dropped", "by NetworkPolicy demo/web, which isolates web for ingress; no rule allows client TCP port 8081")
	p.await("document.querySelector('.answer .picture g.dropped')")
	p.show("trace?from=demo/client&to=svc/demo/web", "Trace")
	p.reads(".answer", "allowed", "The reply")
	p.show("trace?from=demo/nobody&to=svc/demo/web", "Trace")
	p.reads(".refusal", "there is no pod demo/nobody")
}

// The page says who may reach a pod, and by which rule.
func TestReach(t *testing.T) {
	p, api := opened(t)
	p.show("reach/demo/web", "Who may reach demo/web")
	p.await("document.querySelectorAll('tbody tr').length === 3")
	p.reads("main", "ClusterNetworkPolicy no-batch", "What no rule allows is denied by NetworkPolicy demo/web",
		"pods with app=client in namespace demo", "demo/client", "TCP 8080", "TCP http (8080)")
	api.remove("networkpolicies", "demo", "web")
	p.reads("main", "No NetworkPolicy isolates the pod")
	p.show("pods/demo/client", "Pod demo/client")
	p.await("document.querySelector('.actions')")
	p.do(chromedp.Click(chromedp.Search("//button[text()='Ask']")))
	p.reads("section", "the pod has its network")
}

// A missing permission is named, and everything else works.
func TestMissingPermission(t *testing.T) {
	chromium(t)
	api := newAPIServer(t)
	api.fill()
	api.forbidden["networkpolicies"], api.forbidden["nodenetworks"] = true, true
	p := open(t, serve(t, api.kubeconfig(t)))
	p.reads(".refusal", "You lack a permission: list nodenetworks.network.weft.dev cluster-wide")
	p.show("policies", "Policies")
	p.await("document.querySelector('.row')?.lastElementChild.textContent === ''") // no-batch has no rules for egress
	p.reads(".refusal", "You lack a permission: list networkpolicies.networking.k8s.io cluster-wide")
	p.await("document.querySelectorAll('.row').length === 2")
	p.show("reach/demo/web", "Who may reach demo/web")
	p.reads(".refusal", "list networkpolicies.networking.k8s.io")
	p.show("pods", "Pods")
	p.await("document.querySelectorAll('.row').length > 15")
}

// A link opens the page once, and pages of other origins cannot read it.
func TestOthersCannotRead(t *testing.T) {
	chromium(t)
	api := newAPIServer(t)
	api.fill()
	link := serve(t, api.kubeconfig(t))
	p := open(t, link)
	p.await("document.querySelector('.headline')")
	if at := eval[string](p, "location.href"); strings.Contains(at, "token") {
		t.Errorf("the token stays in the address: %s", at)
	}
	second := open(t, link)
	second.await("document.querySelector('.refusal')?.innerText.includes('the link was used already')")
	p.do(chromedp.Reload())
	p.await("document.querySelector('.headline')") // the key is still in the tab

	origin := strings.Split(link, "/#")[0]
	foreign := open(t, api.url) // a page of another port
	for _, path := range []string{"/", "/api/changes", "/api/session"} {
		got := eval[string](foreign, "fetch('"+origin+path+"').then(r => r.text(), e => 'refused: ' + e)")
		if !strings.HasPrefix(got, "refused: ") {
			t.Errorf("another origin reads %s: %s", path, got)
		}
	}
}

// opened starts everything, and opens the page.
func opened(t *testing.T) (page, *apiServer) {
	t.Helper()
	chromium(t)
	api := newAPIServer(t)
	api.fill()
	return open(t, serve(t, api.kubeconfig(t))), api
}

// reads waits until the first element of a selector has all texts.
func (p page) reads(selector string, texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.await(fmt.Sprintf("(document.querySelector(%q)?.textContent ?? '').includes(%q) && document.querySelector(%[1]q)", selector, text))
	}
}

// durations are the measurements of the browser about the view of the pods, in milliseconds.
func (p page) durations() []float64 {
	p.t.Helper()
	return eval[[]float64](p, "performance.getEntriesByName('weft:pods').map(e => e.duration)")
}

// focused waits until the focus is where an expression says.
func (p page) focused(expression string) { p.t.Helper(); p.await(expression) }

// empty empties a field.
func (p page) empty(selector string) {
	p.t.Helper()
	eval[bool](p, "(document.querySelector('"+selector+"').value = '', true)")
}

// tabTo presses Tab until an expression is true.
func (p page) tabTo(expression string) {
	p.t.Helper()
	for range 60 {
		if eval[bool](p, expression) {
			return
		}
		p.press(kb.Tab)
	}
	p.t.Fatalf("Tab never comes to %s", expression)
}
