package main
import ("os"; "runtime/debug"; "time"; _ "google.golang.org/grpc"; _ "k8s.io/client-go/kubernetes/scheme")
func main(){ debug.FreeOSMemory(); b,_:=os.ReadFile("/proc/self/status"); os.Stdout.Write(b); time.Sleep(0) }
