package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "mooring/tests/cluster/managerpb"

	"google.golang.org/grpc"
)

const longestAnswer = 256 << 20 // bytes, of a list of all records

// A manager is mooring-manager on a host of its own: directories, plugins, and ports at etcd.
type manager struct {
	host      string
	directory string
	flags     []string
	plugins   []*fakePlugin
	client    pb.ManagerClient
	channel   *grpc.ClientConn

	mutex   sync.Mutex
	process *exec.Cmd
	starts  []int64 // times of the history
	history *history
}

func newManager(directory, host string, flags []string, log *history) (*manager, error) {
	m := &manager{host: host, directory: filepath.Join(directory, host), flags: flags, history: log}
	if err := os.MkdirAll(m.directory, 0o700); err != nil {
		return nil, err
	}
	return m, m.connect()
}

// connect makes a new connection, which does not wait because earlier tries have failed.
func (m *manager) connect() error {
	if m.channel != nil {
		_ = m.channel.Close()
	}
	var err error
	m.channel, err = m.dial()
	m.client = pb.NewManagerClient(m.channel)
	return err
}

func (m *manager) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+m.path("manager.sock"), plain(), grpc.WithConnectParams(quickly()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(longestAnswer)))
}

func (m *manager) path(name string) string { return filepath.Join(m.directory, name) }

func (m *manager) start() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.process != nil {
		return nil
	}
	flags := append([]string{"--host", m.host, "--state-dir", m.path("state"), "--socket", m.path("manager.sock"),
		"--runtime-dir", m.path("run"), "--root", m.path("mounts"), "--engine", m.path("no-engine.sock"),
		"--log-level", "info"}, m.flags...)
	program := filepath.Join(programs, "mooring-manager")
	if managerProgram != "" {
		program = managerProgram
	}
	command := exec.Command(program, flags...)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	if clockFile != "" {
		command.Env = append(command.Env, "LD_PRELOAD="+clockFile, "CLUSTER_CLOCK="+m.path("clock"))
	}
	process, err := startProcess(command, m.path("manager.log"))
	if err != nil {
		return err
	}
	m.process = process
	m.starts = append(m.starts, m.history.now())
	return nil
}

func (m *manager) kill() { m.end(syscall.SIGKILL) }

func (m *manager) end(signal syscall.Signal) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.process != nil {
		endProcess(m.process, signal)
		m.process = nil
	}
}

func (m *manager) signal(signal syscall.Signal) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.process != nil {
		_ = m.process.Process.Signal(signal)
	}
}

// stop is what systemd does.
func (m *manager) stop() { m.end(syscall.SIGTERM) }

// accepts tries the socket itself, because a gRPC channel pauses after each failure.
func (m *manager) accepts() error {
	connection, err := net.Dial("unix", m.path("manager.sock"))
	if err == nil {
		err = connection.Close()
	}
	return err
}

// setClock moves the manager's clock of the day by some seconds.
func (m *manager) setClock(offset int) error {
	file, err := os.OpenFile(m.path("clock"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return binary.Write(file, binary.LittleEndian, int64(offset)*int64(time.Second)) // in place: it is mapped
}

func (m *manager) startedAt() []int64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]int64(nil), m.starts...)
}

// revive starts the manager if it has ended, for example because it could not take its lease.
func (m *manager) revive() error {
	m.mutex.Lock()
	ended := m.process != nil && m.hasEnded()
	if ended {
		_ = m.process.Wait()
		m.process = nil
	}
	m.mutex.Unlock()
	return m.start()
}

func (m *manager) hasEnded() bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.process.Process.Pid))
	if err != nil {
		return true
	}
	rest := string(state[strings.LastIndexByte(string(state), ')')+1:])
	return strings.HasPrefix(rest, " Z")
}

func call[Answer any](timeout time.Duration, do func(context.Context) (Answer, error)) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return do(ctx)
}

func (m *manager) answers() error {
	_, err := call(time.Second, func(ctx context.Context) (*pb.GetManagerInfoResponse, error) {
		return m.client.GetManagerInfo(ctx, &pb.GetManagerInfoRequest{})
	})
	return err
}

func (m *manager) waitUntilReady(patience time.Duration) error {
	return eventually(m.host+" is ready", patience, func() error {
		if err := m.revive(); err != nil {
			return err
		}
		if err := m.answers(); err != nil {
			return err
		}
		return m.pluginsAreHealthy()
	})
}

func (m *manager) pluginsAreHealthy() error {
	answer, err := call(time.Second, func(ctx context.Context) (*pb.ListPluginsResponse, error) {
		return m.client.ListPlugins(ctx, &pb.ListPluginsRequest{})
	})
	if err != nil {
		return err
	}
	healthy := 0
	for _, plugin := range answer.Plugins {
		if plugin.Nodes.GetHealthy() > 0 && (!plugin.ControllerRequired || plugin.Controllers.GetHealthy() > 0) {
			healthy++
		}
	}
	if wanted := max(len(m.plugins), len(answer.Plugins)); healthy < wanted {
		return fmt.Errorf("%d of %d plugins are healthy", healthy, wanted)
	}
	return nil
}

func (m *manager) registerPlugins() error {
	for _, plugin := range m.plugins {
		err := eventually(plugin.name+" is registered on "+m.host, 2*time.Minute, func() error {
			_, err := call(20*time.Second, func(ctx context.Context) (*pb.RegisterPluginResponse, error) {
				return m.client.RegisterPlugin(ctx, &pb.RegisterPluginRequest{Name: plugin.name,
					Endpoint: "unix://" + plugin.socket, Wait: true})
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *manager) registerVolume(volume volumeKind) error {
	request := &pb.Volume{Key: &pb.VolumeKey{Id: volume.Name}, ExternalId: volume.Name, Plugin: volume.plugin()}
	for _, access := range volume.Access {
		request.Capabilities = append(request.Capabilities,
			&pb.Capability{Access: pb.AccessMode(access), Attachment: pb.AttachmentMode_FILE_SYSTEM})
	}
	_, err := call(20*time.Second, func(ctx context.Context) (*pb.RegisterVolumeResponse, error) {
		return m.client.RegisterVolume(ctx, &pb.RegisterVolumeRequest{Volume: request})
	})
	return err
}

func (m *manager) listClaims(volume string) ([]*pb.Claim, error) {
	request := &pb.ListClaimsRequest{}
	if volume != "" {
		request.Volume = &pb.VolumeKey{Id: volume}
	}
	answer, err := call(finalTime, func(ctx context.Context) (*pb.ListClaimsResponse, error) {
		return m.client.ListClaims(ctx, request)
	})
	return answer.GetClaims(), err
}

func (m *manager) listAttachments() ([]*pb.Attachment, error) {
	answer, err := call(finalTime, func(ctx context.Context) (*pb.ListAttachmentsResponse, error) {
		return m.client.ListAttachments(ctx, &pb.ListAttachmentsRequest{})
	})
	return answer.GetAttachments(), err
}

// drain reads a stream to its end.
func drain[Reply any](stream grpc.ServerStreamingClient[Reply], err error) error {
	return each(stream, err, func(*Reply) {})
}

func each[Reply any](stream grpc.ServerStreamingClient[Reply], err error, see func(*Reply)) error {
	for err == nil {
		var reply *Reply
		if reply, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			see(reply)
		}
	}
	return err
}
