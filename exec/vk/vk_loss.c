/* A Vulkan device that is lost, or given up. */
#include "exec/vk/vk_loss.h"
#include "exec/vk/vk_device.h"

rota_status rota_vk_lose(rota_vk_device *device, VkResult result, const char *what) {
    rota_vk_fail(result, what);
    rota_status status = rota_fail_context(ROTA_DEVICE_LOST, "%s (%s) is lost: ", device->base.info.id,
                                           device->base.info.name);
    /* Given up, not gone: it may go on with what it was given, so that stays until close has seen the end of
     * it. Before anybody hears of the loss and frees; pairs with the loads in the destroy functions. */
    if (result != VK_ERROR_DEVICE_LOST) ra_store_release(&device->noisy, 1);
    /* Releases to the acquire loads of `lost`; the exchange makes one thread call back. */
    if (ra_exchange_acq_rel(&device->lost, 1) == 0 && device->host.lost)
        device->host.lost(device->host.user, status, rota_last_error());
    return status;
}
