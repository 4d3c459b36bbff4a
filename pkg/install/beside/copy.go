package beside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Source is what a Copy is made of.
type Source struct {
	// NB and SB are OVSDB remotes of the live databases. They are only read.
	NB, SB string
	// RunDir is the folder in which the copy has its own folder. Its path must be short.
	RunDir   string
	Programs Programs
	// Memory bounds the address space of each private program, in bytes. 0 means no bound.
	Memory uint64
}

// Copy is a private copy of OVN's databases.
type Copy struct {
	folder string
	lock   *os.File

	nbServer, sbServer *Server
	nb, sb             *wire.Database
	northd             *Process
	ended              context.Context // of ovn-northd
	number             int64           // nb_cfg of the copy
}

// errNorthdEnded is the cause when a computation is cancelled because the private ovn-northd ended.
var errNorthdEnded = errors.New("the private ovn-northd ended unexpectedly")

// StartCopy copies the live databases, applies changes to the copy of the northbound database, and returns when a
// private ovn-northd has computed what follows. Chassis and the bindings of ports are copied. A machine runs one copy
// at a time: another one is an error. Stop ends the copy; it also ends with this process.
func StartCopy(ctx context.Context, s Source, changes ...wire.Operation) (*Copy, error) {
	c := &Copy{folder: filepath.Join(s.RunDir, ".weft-copy")}
	if err := c.start(ctx, s, changes); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Copy) start(ctx context.Context, s Source, changes []wire.Operation) error {
	if err := c.open(s.RunDir); err != nil {
		return err
	}
	before, err := c.copyRows(ctx, s, changes)
	if err != nil {
		return err
	}
	ended, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c.ended = ended
	c.northd, err = StartNorthd(s.Programs, c.folder, c.nbServer.Remote, c.sbServer.Remote, func() { end(errNorthdEnded) })
	if err != nil {
		return err
	}
	if err := c.northd.bound(s.Memory); err != nil {
		return err
	}
	if err := c.compute(ctx); err != nil {
		return err
	}
	return c.bind(ctx, before)
}

// open makes the folder. A killed process leaves its folder behind, without a lock.
func (c *Copy) open(runDir string) (err error) {
	if c.lock, err = os.OpenFile(filepath.Join(runDir, "weft-copy.lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := Lock(c.lock); err != nil {
		return errors.Join(fmt.Errorf("another copy of the databases is in use (%s: %w); try again later", c.lock.Name(), err), c.release())
	}
	return errors.Join(os.RemoveAll(c.folder), os.Mkdir(c.folder, 0o700))
}

// release closes the lock.
func (c *Copy) release() error {
	err := c.lock.Close()
	c.lock = nil
	return err
}

// copyRows fills the private databases and returns the live southbound database's rows.
func (c *Copy) copyRows(ctx context.Context, s Source, changes []wire.Operation) (wire.Snapshot, error) {
	live, err := wire.Dial(ctx, s.NB, wire.Northbound)
	if err != nil {
		return nil, err
	}
	defer live.Close()
	schema, err := live.Schema(ctx)
	if err != nil {
		return nil, err
	}
	names, err := wire.Tables(schema)
	if err != nil {
		return nil, err
	}
	rows, err := live.Snapshot(ctx, names...)
	if err != nil {
		return nil, err
	}
	if len(rows["NB_Global"]) != 1 {
		return nil, errors.New("the northbound database is empty")
	}
	c.number = rows["NB_Global"][0].Number("nb_cfg")
	if c.nbServer, c.nb, err = Serve(ctx, s.Programs, c.folder, c.folder, "nb", wire.Northbound, schema); err != nil {
		return nil, err
	}
	if err := c.nbServer.process.bound(s.Memory); err != nil {
		return nil, err
	}
	if _, err := c.nb.Transact(ctx, rows.InsertAll(names...)...); err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		if _, err := c.nb.Transact(ctx, changes...); err != nil {
			return nil, fmt.Errorf("cannot apply the changes to a copy of the databases: %w", err)
		}
	}
	return c.copyChassis(ctx, s)
}

// copyChassis makes the private southbound database with the chassis of the live one.
func (c *Copy) copyChassis(ctx context.Context, s Source) (wire.Snapshot, error) {
	live, err := wire.Dial(ctx, s.SB, wire.Southbound)
	if err != nil {
		return nil, err
	}
	defer live.Close()
	schema, err := live.Schema(ctx)
	if err != nil {
		return nil, err
	}
	before, err := live.Snapshot(ctx, SeedTables...)
	if err != nil {
		return nil, err
	}
	if c.sbServer, c.sb, err = Serve(ctx, s.Programs, c.folder, c.folder, "sb", wire.Southbound, schema); err != nil {
		return nil, err
	}
	if err := c.sbServer.process.bound(s.Memory); err != nil {
		return nil, err
	}
	operations, _ := ChassisRows(before, nil)
	_, err = c.sb.Transact(ctx, operations...)
	return before, err
}

// bind binds the ports as in the live database.
func (c *Copy) bind(ctx context.Context, before wire.Snapshot) error {
	fresh, err := c.sb.Snapshot(ctx, "Chassis", "Datapath_Binding", "Port_Binding")
	if err != nil {
		return err
	}
	operations, _ := Bindings(fresh, before, true)
	operations = append(operations, Learned(fresh, before)...)
	if len(operations) == 0 {
		return nil
	}
	if _, err := c.sb.Transact(ctx, operations...); err != nil {
		return err
	}
	return c.compute(ctx)
}

// compute returns when the private ovn-northd has written everything that follows from the databases.
func (c *Copy) compute(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ended, func() { cancel(context.Cause(c.ended)) })()
	c.number++
	_, err := c.nb.Transact(ctx, wire.Update("NB_Global", wire.All, wire.Row{"nb_cfg": c.number}))
	if err == nil {
		err = c.nb.AwaitNumber(ctx, "NB_Global", wire.All, "sb_cfg", c.number)
	}
	if err != nil {
		return c.northd.Failure(err)
	}
	return nil
}

// Sockets returns the paths of the private databases' sockets.
func (c *Copy) Sockets() (nb, sb string) {
	return filepath.Join(c.folder, "nb.sock"), filepath.Join(c.folder, "sb.sock")
}

// Stop ends the private programs and removes their files.
func (c *Copy) Stop() {
	for _, d := range []*wire.Database{c.nb, c.sb} {
		if d != nil {
			d.Close()
		}
	}
	if c.northd != nil {
		c.northd.Stop()
	}
	for _, s := range []*Server{c.nbServer, c.sbServer} {
		if s != nil {
			s.Stop()
		}
	}
	if c.lock != nil { // only the holder of the lock owns the folder
		_ = os.RemoveAll(c.folder)
		_ = c.release()
	}
}
